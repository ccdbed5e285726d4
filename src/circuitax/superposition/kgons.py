"""Regular k-gons: potentials on one-hot data, and memorised samples.

In each sample exactly one of c features is on, chosen uniformly, with a magnitude uniform on
[0, 1]. The expected loss of a model is

    L = (1/c) sum_j int_0^1 sum_i (x delta_ij - relu(G_ij x + b_i))^2 dx,

which is piecewise polynomial in norms, biases and cosines. A regular k-gon of the right norm l and
bias b, with the other c - k features at zero, is a critical point, and its loss is the potential
``L(k, c) = (h_k + c - k) / (3 c)``.

Let T samples of unit norm have disjoint supports, as rare features nearly have. A model that keeps
sample t in the direction ``h_t`` has ``W = sum_t h_t x_t^T``, and with a bias of ``β x_t`` on the
support of sample t its output for sample s is there ``x_t relu(h_s · h_t + β)``. Its error is
therefore that of T features of fixed value 1 in the same dimensions, and a regular T-gon of norm l
in two dimensions has none iff

    l^2 + β = 1    and    l^2 cos(2π/T) + β <= 0.

NumPy is used, not JAX.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike
from scipy import ndimage, optimize

from circuitax.kernel.checks import check_range
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.output_error import error_on, mean_error_off

# The grid on which `optimal_kgon` looks for basins: squared norms, and biases in squared norms.
N_GAINS, N_RATIOS = 160, 106
# The basins that are polished.
N_POLISHED = 5
# The loss of a k-gon whose outputs are all off, less what rounding may leave of it.
PLATEAU = 1 / 3 - 1e-9


class KGon(NamedTuple):
    """The optimal regular k-gon of c = k features: its norm, bias, loss L, and ``h = 3 k L``."""

    norm: float
    bias: float
    loss: float
    h: float


def one_hot_loss(weights: TiedWeights) -> Float[Array, ""]:
    """The exact expected sum loss on one-hot data with a uniform feature and U[0, 1] magnitude.

    Source: Chen et al. 2023 (arXiv 2310.06301), the TMS potential ``H / 3c``.
    """
    gram = weights.W.T @ weights.W
    n_features = gram.shape[0]
    bias = jnp.broadcast_to(weights.b[:, None], gram.shape)
    own = jnp.eye(n_features, dtype=bool)
    driven = mean_error_off(bias, bias + gram)
    on = error_on(weights.b, jnp.diagonal(gram))
    return (jnp.sum(jnp.where(own, 0, driven)) + jnp.sum(on)) / n_features


class CriticalPoint(NamedTuple):
    """Gradient and curvatures of the loss at weights that should be stationary.

    Attributes:
        slope: Largest entry of the gradient.
        curvatures: Eigenvalues of the Hessian in W and b, the least first.
    """

    slope: float
    curvatures: Float[np.ndarray, " n_parameters"]


def critical_point(weights: TiedWeights) -> CriticalPoint:
    """Gradient and Hessian spectrum of `one_hot_loss`, in float64 whatever the caller's precision.

    Source: Chen et al. 2023, critical points; derivatives by JAX.
    """
    with jax.enable_x64(True):
        at, shape = TiedWeights(*(jnp.asarray(leaf, float) for leaf in weights)), weights.W.shape
        start = jnp.concatenate([at.W.ravel(), at.b])

        def loss(flat: Float[Array, " n_parameters"]) -> Float[Array, ""]:
            return one_hot_loss(TiedWeights(flat[: at.W.size].reshape(shape), flat[at.W.size :]))

        slope, hessian = jax.jit(lambda at: (jax.grad(loss)(at), jax.hessian(loss)(at)))(start)
        return CriticalPoint(float(jnp.abs(slope).max()), np.linalg.eigvalsh(np.asarray(hessian)))


def kgon_weights(
    k: int,
    n_features: int,
    norm: float | Float[Array, ""],
    bias: float | Float[Array, ""],
    *,
    n_positive: int = 0,
) -> TiedWeights:
    """A regular k-gon with ``n_features - k`` features at zero."""
    angle = 2 * jnp.pi * jnp.arange(n_features) / k
    index = jnp.arange(n_features)
    alive = index < k
    dead_bias = jnp.where(index < k + n_positive, 1 / (2 * n_features), 0)
    W = norm * jnp.where(alive[None, :], jnp.stack([jnp.cos(angle), jnp.sin(angle)]), 0)
    return TiedWeights(W, jnp.where(alive, bias, dead_bias).astype(W.dtype))


def optimal_kgon(k: int) -> KGon:
    """Norm and bias that minimise the one-hot loss of a regular k-gon on its own k features.

    Source: Chen et al. 2023, table of k-gons: k = 5 has norm 1.17046, bias -0.28230.
    """
    check_range("k", k, "[3, inf)")
    with jax.enable_x64(True):
        starts = _grid_minima(k)
        loss = jax.jit(jax.value_and_grad(lambda z: _polygon_loss(k, z[0] ** 2, z[1])))
        ends = [
            optimize.minimize(
                lambda z: tuple(np.asarray(part) for part in loss(jnp.asarray(z))),
                start,
                jac=True,
                method="BFGS",
                options={"gtol": 1e-12},
            )
            for start in starts
        ]
    best = min(ends, key=lambda end: end.fun)
    if not np.abs(best.jac).max() < 1e-7:
        raise ValueError(f"k={k} has no minimum that BFGS finds: gradient {best.jac}")
    norm, bias = (float(v) for v in best.x)
    return KGon(norm=abs(norm), bias=bias, loss=float(best.fun), h=3 * k * float(best.fun))


def kgon_potential(h: float, k: int, n_features: int, *, n_positive: int = 0) -> float:
    """``L(k, c) = (h_k + c - k) / (3 c) - n_positive / (4 c^2)``.

    Source: Chen et al. 2023.
    """
    return (h + n_features - k) / (3 * n_features) - n_positive / (4 * n_features**2)


def _polygon_loss(k: int, gain: Float[Array, ""], bias: Float[Array, ""]) -> Float[Array, ""]:
    """`one_hot_loss` of a regular k-gon of squared norm ``gain``: every vertex loses the same."""
    cosines = jnp.cos(2 * jnp.pi * jnp.arange(1, k) / k)
    start = jnp.full(cosines.shape, bias)
    return jnp.sum(mean_error_off(start, start + gain * cosines)) + error_on(bias, gain)


def _grid_minima(k: int) -> list[tuple[float, float]]:
    """Norm and bias at the lowest local minima of the loss on a grid, lowest first."""
    gains = np.geomspace(2 / k, 5, N_GAINS)
    ratios = np.linspace(-1.25, 0.5, N_RATIOS)

    def row(gain: Float[Array, ""]) -> Float[Array, " n_ratios"]:
        return jax.vmap(lambda ratio: _polygon_loss(k, gain, gain * ratio))(jnp.asarray(ratios))

    losses = np.asarray(jax.jit(lambda gains: jax.lax.map(row, gains))(jnp.asarray(gains)))
    lowest_near = ndimage.minimum_filter(losses, size=3, mode="nearest")
    i, j = np.nonzero((losses == lowest_near) & (losses < PLATEAU))
    order = np.argsort(losses[i, j])[:N_POLISHED]
    return [
        (gains[a] ** 0.5, gains[a] * ratios[b]) for a, b in zip(i[order], j[order], strict=True)
    ]


def tgon_norm(n_points: ArrayLike | int) -> np.ndarray:
    """``1 / (sqrt(2) sin(π/T))``, the least norm of a regular T-gon that memorises T points.

    Source: ours, after the T-gons of Henighan et al. 2023.
    """
    return np.asarray(1 / (np.sqrt(2) * np.sin(np.pi / np.asarray(n_points, np.float64))))


def tgon_weights(x: ArrayLike, norm: float | int) -> tuple[np.ndarray, np.ndarray]:
    """W and b of the model that stores T samples as a regular T-gon, with ``β = 1 - norm^2``.

    Source: ours, after the T-gons of Henighan et al. 2023.
    """
    samples = np.asarray(x, np.float64)
    angle = 2 * np.pi * np.arange(samples.shape[1]) / samples.shape[1]
    corners = norm * np.stack([np.cos(angle), np.sin(angle)])
    return corners @ samples.T, (1 - norm**2) * samples.sum(axis=1)


def reconstruction_loss(W: ArrayLike, b: ArrayLike, x: ArrayLike) -> float:
    """``mean_t sum_i (x_it - relu(W^T W x_t + b)_i)^2`` of a set of samples."""
    weights, samples = np.asarray(W, np.float64), np.asarray(x, np.float64)
    drive = weights.T @ (weights @ samples) + np.asarray(b, np.float64)[:, None]
    return float(((np.maximum(drive, 0) - samples) ** 2).sum(axis=0).mean())
