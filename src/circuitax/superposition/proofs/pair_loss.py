"""Two features in one dimension: the error of one output in closed form.

Output 1 is ``relu(z)`` with ``z = a x + k y + b``, where ``a = w_1^2`` and ``k = w_1 w_2``; its own
feature x and the other one y are on with probability p each, and then uniform on [0, 1]. With
``q = 1 - p`` its expected squared error is

    F = p/3 - 2 P + Q,        P = E[x relu(z)],        Q = E[relu(z)^2].

All cases (signs of k and b, kinks inside the square or not) are one formula in ``tau = relu(t)``
and the open share ``o = clip(1 + t/a, 0, 1)``, the part of x in [0, 1] with ``a x + t > 0``.
Integrals over x alone, at a drive t, are

    S(t) = int x relu(a x + t) dx    = a o^2 (3 - o)/6 + tau/2,
    R(t) = int relu(a x + t)^2 dx    = a^2 o^3/3 + a tau + tau^2,

and the integrals over y are differences of their antiderivatives in t, divided by k.

P and Q are increasing and jointly convex in (a, k, b), which `pair_bounds` makes use of. Functions
here take floats, arrays, intervals (`intervals`) and balls (`balls`) alike.
"""

from typing import NamedTuple

from circuitax.superposition.proofs.exact_numbers import Number, relu


class Energy(NamedTuple):
    """``Q = E[relu(z)^2]`` and its partial derivatives."""

    value: Number
    by_gain: Number
    by_coupling: Number
    by_bias: Number


class DriveMoments(NamedTuple):
    """Integrals over x at a drive t, and their first antiderivatives in t."""

    relu: Number
    work: Number  # S
    work_sum: Number
    slope: Number  # R'
    square: Number  # R
    square_sum: Number


def pair_error(density: Number, gain: Number, coupling: Number, bias: Number) -> Number:
    """F, the expected squared error of one output: ``p/3 - 2 P + Q``.

    Source: toy-models paper, "Superposition as a Phase Change" (the model); integrals by us.
    """
    recovered = pair_work(density, gain, coupling, bias)
    energy = pair_energy(density, gain, coupling, bias)
    return density / 3 - 2 * recovered + energy.value


def pair_work(density: Number, gain: Number, coupling: Number, bias: Number) -> Number:
    """``P = E[x relu(z)]``; arguments as for `pair_error`."""
    rest, driven = drive_moments(bias, gain), drive_moments(bias + coupling, gain)
    return _work(density, coupling, rest, driven)


def pair_energy(density: Number, gain: Number, coupling: Number, bias: Number) -> Energy:
    """``Q = E[relu(z)^2]`` with its derivatives; arguments as for `pair_error`."""
    p, q, k = density, 1 - density, coupling
    rest, driven = drive_moments(bias, gain), drive_moments(bias + coupling, gain)
    squares = driven.relu * driven.relu, rest.relu * rest.relu
    alone = (squares[0] * driven.relu - squares[1] * rest.relu) / (3 * k)
    both = (driven.square_sum - rest.square_sum) / k
    value = q * q * squares[1] + p * q * (alone + rest.square) + p * p * both
    by_coupling = (p * q * (squares[0] - alone) + p * p * (driven.square - both)) / k
    by_bias = (
        2 * q * q * rest.relu
        + p * q * ((squares[0] - squares[1]) / k + rest.slope)
        + p * p * (driven.square - rest.square) / k
    )
    return Energy(value, 2 * _work(p, k, rest, driven), by_coupling, by_bias)


def _work(p: Number, k: Number, rest: DriveMoments, driven: DriveMoments) -> Number:
    return p * ((1 - p) * rest.work + p * (driven.work_sum - rest.work_sum) / k)


def drive_moments(drive: Number, gain: Number) -> DriveMoments:
    """Integrals over the own feature x in [0, 1] of ``relu(a x + t)``, at a drive t."""
    a, tau = gain, relu(drive)
    o = 1 - relu(1 - relu(1 + drive / a))
    once = a * o
    twice = once * o
    thrice = once * twice
    return DriveMoments(
        relu=tau,
        work=twice * (3 - o) / 6 + tau / 2,
        work_sum=thrice * (4 - o) / 24 + tau * (a / 3 + tau / 4),
        slope=twice + 2 * tau,
        square=thrice / 3 + tau * (a + tau),
        square_sum=thrice * once / 12 + tau * (a * a / 3 + tau * (a / 2 + tau / 3)),
    )
