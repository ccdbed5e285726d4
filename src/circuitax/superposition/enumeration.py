"""Exact expected loss of small models by enumerating sparsity patterns: the check.

Output i needs ``E h(b_i + s)`` with h piecewise polynomial in the drive (kinks at 0 and -g) and
``s = sum_{j != i} G_ij x_j``. One feature at a time,

    h  ->  (1 - p_j) h(t) + p_j int_0^1 h(t + G_ij x) dx,

which after all features is the sum over all ``2^(n-1)`` patterns. Each step maps a piecewise
polynomial to a piecewise polynomial with twice the breakpoints and one degree more, so Gauss nodes
on the pieces do every integral exactly. The code is NumPy in float64, runs on the host and shares
nothing with `expected_loss`; its cost grows like ``4^n_features``.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray

from circuitax.kernel.mlp import Activation


class Pieces(NamedTuple):
    """A piecewise polynomial: knots, and a Legendre series on each piece in between."""

    knots: NDArray[np.float64]  # [n_pieces + 1]
    series: NDArray[np.float64]  # [degree + 1, n_pieces]

    def on_pieces(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at ``t [..., n_pieces]``, column k with the polynomial of piece k."""
        width = np.diff(self.knots)
        local = (2 * t - self.knots[:-1] - self.knots[1:]) / np.where(width > 0, width, 1)
        return np.asarray(legendre.legval(local, self.series, tensor=False), np.float64)

    def __call__(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at points ``t [n]`` inside the knots."""
        piece = np.searchsorted(self.knots, t, side="right") - 1
        piece = np.clip(piece, 0, self.series.shape[1] - 1)
        return np.take_along_axis(
            self.on_pieces(np.repeat(t[:, None], self.series.shape[1], axis=1)), piece[:, None], 1
        )[:, 0]

    def mean(self, t: NDArray[np.float64], shift: float) -> NDArray[np.float64]:
        """Averages over the intervals from ``t [n]`` to ``t + shift``, exactly."""
        low, high = np.minimum(t, t + shift)[:, None], np.maximum(t, t + shift)[:, None]
        begin = np.clip(self.knots[None, :-1], low, high)
        length = np.clip(self.knots[None, 1:], low, high) - begin
        nodes, weights = legendre.leggauss((self.series.shape[0] + 1) // 2)
        points = begin + 0.5 * (1 + nodes[:, None, None]) * length
        averages = 0.5 * np.einsum("q,qtk->tk", weights, self.on_pieces(points))
        # Not by the shift: t + shift - t has lost the digits that the lengths lost too.
        return (averages * length).sum(axis=1) / length.sum(axis=1)


def enumerated_loss(
    W: ArrayLike,
    b: ArrayLike,
    density: ArrayLike,
    importance: ArrayLike,
    activation: Activation | str = Activation.relu,
) -> float:
    """``E_x sum_i I_i (x_i - out(W^T W x + b)_i)^2`` to rounding, x_i uniform on [0, 1] or off.

    Source: toy-models paper, "Demonstrating Superposition" (the two models).
    """
    W, b, p, weight = (np.asarray(v, np.float64) for v in (W, b, density, importance))
    n_features = W.shape[1]
    rectified = activation == Activation.relu
    if not rectified and activation != Activation.linear:
        raise ValueError(f"activation={activation} must be relu or linear")
    gram = W.T @ W
    total = 0.0
    for i in range(n_features):
        others = [j for j in range(n_features) if j != i]
        error = _output_error(gram[i, i], gram[i, others], b[i], p[i], p[others], rectified)
        total += weight[i] * error
    return float(total)


def _output_error(
    gain: float,
    couplings: NDArray[np.float64],
    bias: float,
    active: float,
    density: NDArray[np.float64],
    rectified: bool,
) -> float:
    """``E (x_i - out(g x_i + b_i + s))^2``."""
    window = _window(bias, couplings)
    kinks = np.array([-gain, 0.0]) if rectified else np.empty(0)
    error = _fit(window, kinks, 4, lambda t: _unit_error(t, gain, active, rectified))
    moving = np.abs(couplings) > 1e-12  # a silent feature changes nothing
    steps = list(zip(couplings[moving], density[moving], strict=True))
    for k, (shift, p) in enumerate(steps):
        rest = np.array([c for c, _ in steps[k + 1 :]])
        error = _include(error, shift, p, _window(bias, rest))
    return float(error(np.array([bias]))[0])


def _include(error: Pieces, shift: float, p: float, window: NDArray[np.float64]) -> Pieces:
    """``(1 - p) h(t) + p int_0^1 h(t + shift x) dx`` on a window."""
    return _fit(
        window,
        np.concatenate([error.knots, error.knots - shift]),
        error.series.shape[0] + 1,
        lambda t: (1 - p) * error(t) + p * error.mean(t, shift),
    )


def _window(bias: float, couplings: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lowest and the highest drive reachable by these features from the bias."""
    return bias + np.array([np.minimum(couplings, 0).sum(), np.maximum(couplings, 0).sum()])


def _fit(
    window: NDArray[np.float64],
    kinks: NDArray[np.float64],
    n_coefficients: int,
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Pieces:
    """The piecewise polynomial equal to ``function`` on a window, given its possible kinks."""
    inside = kinks[(kinks > window[0]) & (kinks < window[1])]
    knots = np.unique(np.concatenate([window, inside]))
    if len(knots) == 1:
        knots = np.array([knots[0], knots[0]])
    nodes, weights = legendre.leggauss(n_coefficients)
    width = np.diff(knots)
    points = knots[None, :-1] + 0.5 * (1 + nodes[:, None]) * width[None, :]
    values = function(points.ravel()).reshape(points.shape)
    basis = legendre.legvander(nodes, n_coefficients - 1)
    scale = np.arange(n_coefficients) + 0.5
    return Pieces(knots, scale[:, None] * np.einsum("q,qd,qk->dk", weights, basis, values))


def _unit_error(
    drive: NDArray[np.float64], gain: float, active: float, rectified: bool
) -> NDArray[np.float64]:
    """``(1 - p) out(t)^2 + p int_0^1 (x - out(g x + t))^2 dx``, the integral split at its kink."""
    if not rectified:
        return drive**2 + active * (1 - gain) * ((1 - gain) / 3 - drive)
    opening = np.clip(-drive / max(gain, 1e-300), 0, 1)
    nodes, weights = legendre.leggauss(2)
    x = opening[:, None] + 0.5 * (1 + nodes[None, :]) * (1 - opening[:, None])
    squares = (x - np.maximum(gain * x + drive[:, None], 0)) ** 2
    on = opening**3 / 3 + 0.5 * (1 - opening) * (squares @ weights)
    return (1 - active) * np.maximum(drive, 0) ** 2 + active * on
