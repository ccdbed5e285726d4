"""The error of one output coupled to two other features, in closed form.

The output is ``relu(z)`` with ``z = a x + k_1 y_1 + k_2 y_2 + b``, where ``a = |w_1|^2`` and the
couplings are products with the other two features; each feature is on with probability p, and then
uniform on [0, 1]. As for two features (`pair_loss`), the expected squared error is

    F = p/3 - 2 P + Q,        P = E[x relu(z)],        Q = E[relu(z)^2],

and P and Q are jointly convex in (a, k_1, k_2, b). With ``f(t)`` the mean over x at a drive t, the
mean over what the others do is

    q^2 f(b) + p q sum_i (f'(b + k_i) - f'(b)) / k_i + p^2 D f'' / (k_1 k_2),

where primes stand for antiderivatives here, and ``D g = g(b + k_1 + k_2) - g(b + k_1) - g(b + k_2)
+ g(b)``. Functions take floats, arrays, intervals and balls alike.
"""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.superposition.proofs.exact_numbers import Number, relu
from circuitax.superposition.proofs.pair_loss import DriveMoments, drive_moments


class Couplings(NamedTuple):
    """Couplings of the output to the other two features; neither is 0."""

    one: Number
    two: Number


class TripleEnergy(NamedTuple):
    """``Q = E[relu(z)^2]`` and its partial derivatives."""

    value: Number
    by_gain: Number
    by_one: Number
    by_two: Number
    by_bias: Number


class _Ladder(NamedTuple):
    """A function of the drive and its first two antiderivatives, at one drive."""

    value: Number
    once: Number
    twice: Number


# At b, b + k_1, b + k_2 and b + k_1 + k_2.
_Drives = Sequence[_Ladder]


def triple_error(density: Number, gain: Number, couplings: Couplings, bias: Number) -> Number:
    """F, the expected squared error of one output: ``p/3 - 2 P + Q``.

    Source: toy-models paper, "Superposition as a Phase Change" (the model); integrals by us.
    """
    energy = triple_energy(density, gain, couplings, bias)
    return density / 3 - 2 * triple_work(density, gain, couplings, bias) + energy.value


def triple_work(density: Number, gain: Number, couplings: Couplings, bias: Number) -> Number:
    """``P = E[x relu(z)]``; arguments as for `triple_error`."""
    at = [(t, drive_moments(t, gain)) for t in _drives(couplings, bias)]
    return density * _mean(density, couplings, _works(gain, at))


def triple_energy(
    density: Number, gain: Number, couplings: Couplings, bias: Number
) -> TripleEnergy:
    """``Q = E[relu(z)^2]`` with its derivatives; arguments as for `triple_error`."""
    p, q = density, 1 - density
    at = [(t, drive_moments(t, gain)) for t in _drives(couplings, bias)]
    off = tuple(_power(m.relu) for _, m in at)
    on = tuple(_Ladder(m.square, m.square_sum, _square_twice(gain, t, m)) for t, m in at)
    slope_off = tuple(
        _Ladder(2 * m.relu, f.value, f.once) for (_, m), f in zip(at, off, strict=True)
    )
    slope_on = tuple(_Ladder(m.slope, m.square, m.square_sum) for _, m in at)

    def joined(idle: Number, driven: Number) -> Number:
        return q * idle + p * driven

    by_one, by_two = (
        joined(_by_coupling(p, ks, turned(off)), _by_coupling(p, ks, turned(on)))
        for ks, turned in (
            (couplings, lambda ladders: ladders),
            (Couplings(couplings.two, couplings.one), _swapped),
        )
    )
    return TripleEnergy(
        joined(_mean(p, couplings, off), _mean(p, couplings, on)),
        2 * p * _mean(p, couplings, _works(gain, at)),
        by_one,
        by_two,
        joined(_mean(p, couplings, slope_off), _mean(p, couplings, slope_on)),
    )


def _drives(couplings: Couplings, bias: Number) -> list[Number]:
    one, two = couplings
    return [bias, bias + one, bias + two, bias + one + two]


def _mean(p: Number, couplings: Couplings, at: _Drives) -> Number:
    """The mean over the other two features, each off or on."""
    q, (rest, one, two, both) = 1 - p, at
    alone = (one.once - rest.once) / couplings.one + (two.once - rest.once) / couplings.two
    together = ((both.twice - one.twice) - (two.twice - rest.twice)) / couplings.one / couplings.two
    return q * q * rest.value + p * q * alone + p * p * together


def _by_coupling(p: Number, couplings: Couplings, at: _Drives) -> Number:
    """Derivative of `_mean` by the first coupling."""
    rest, one, two, both = at
    alone = (one.once - rest.once) / couplings.one
    together = ((both.twice - one.twice) - (two.twice - rest.twice)) / couplings.one / couplings.two
    moved = (both.once - one.once) / couplings.two
    return (p * (1 - p) * (one.value - alone) + p * p * (moved - together)) / couplings.one


def _swapped(at: _Drives) -> _Drives:
    """The mean with the other two features exchanged."""
    return at[0], at[2], at[1], at[3]


def _power(tau: Number) -> _Ladder:
    """``tau^2`` and its antiderivatives in the drive."""
    square = tau * tau
    return _Ladder(square, square * tau / 3, square * square / 12)


def _works(gain: Number, at: list[tuple[Number, DriveMoments]]) -> _Drives:
    return tuple(_Ladder(m.work, m.work_sum, _work_twice(gain, t, m)) for t, m in at)


def _share(gain: Number, drive: Number) -> Number:
    """The part of x in [0, 1] with ``a x + t > 0``."""
    return 1 - relu(1 - relu(1 + drive / gain))


def _work_twice(gain: Number, drive: Number, at: DriveMoments) -> Number:
    """The second antiderivative of ``S = int x relu(a x + t) dx``."""
    a, tau, o = gain, at.relu, _share(gain, drive)
    once = a * o
    return once * once * once * o * (5 - o) / 120 + tau * (a * a / 8 + tau * (a / 6 + tau / 12))


def _square_twice(gain: Number, drive: Number, at: DriveMoments) -> Number:
    """The second antiderivative of ``R = int relu(a x + t)^2 dx``."""
    a, tau, o = gain, at.relu, _share(gain, drive)
    once = a * o
    square = once * once
    return square * square * o / 60 + tau * (
        a * a * a / 12 + tau * (a * a / 6 + tau * (a / 6 + tau / 12))
    )
