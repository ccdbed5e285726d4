"""Responses of a dense network to single features and pairs: erased, clipped and invented ones.

S0 is the document "Some Structures in Transformer Architectures" (Menon 2025), whose Example 26 is
a network of this kind; E6 and E7 are rows of docs/errata.md on what it says of that network.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.checks import check_range
from circuitax.kernel.toy import dense_forward
from circuitax.kernel.weights import DenseWeights


class Onsets(NamedTuple):
    """Magnitudes at which the network's response to feature k changes; ``inf`` for no change.

    Attributes:
        alive: Above it the feature's own output is positive.
        clips: Above it some hidden unit is clipped by its ReLU.
        invents: Above it another feature's output is positive.
    """

    alive: Float[Array, " n_features"]
    clips: Float[Array, " n_features"]
    invents: Float[Array, " n_features"]


class PairTable(NamedTuple):
    """Responses to ``e_i + e_j`` for all pairs i < j, in lexicographic order.

    Attributes:
        pre_activation: The outputs before their ReLU.
    """

    first: Int[Array, " pair"]
    second: Int[Array, " pair"]
    output: Float[Array, "pair n_features"]
    pre_activation: Float[Array, "pair n_features"]
    clipped: Bool[Array, "pair n_hidden"]


def feature_response(
    weights: DenseWeights, magnitudes: Float[Array, " magnitude"]
) -> Float[Array, "n_features magnitude n_features"]:
    """The output for ``a · e_k``, for every feature k and magnitude a.

    Source: S0 Example 26, which takes a = 1 only (E6).
    """
    n_features = weights.layers[0].W.shape[0]
    basis = jnp.eye(n_features, dtype=magnitudes.dtype)
    return dense_forward(weights, basis[:, None, :] * magnitudes[None, :, None])[0]


def onsets(weights: DenseWeights, limit: float = 3.0, n_grid: int = 301) -> Onsets:
    """The three onsets of every feature along ``a · e_k``, a from 0 to ``limit``, by bisection.

    Source: S0 Example 26; errata E6.
    """
    check_range("limit", limit, "(0, inf)")
    check_range("n_grid", n_grid, "[2, inf)")
    if len(weights.layers) < 2:
        raise ValueError(f"weights has {len(weights.layers)} layer; a hidden layer is needed")
    n_features = weights.layers[0].W.shape[0]
    dtype = weights.layers[0].W.dtype
    if (d_out := weights.layers[-1].W.shape[1]) != n_features:
        raise ValueError(f"weights put out {d_out} features, must put out n_features={n_features}")

    def margins(a: Float[Array, ""], k: Int[Array, ""]) -> Float[Array, "3"]:
        e_k = jax.nn.one_hot(k, n_features, dtype=dtype)
        _, pre = dense_forward(weights, a * e_k)
        others = jnp.where(e_k > 0, -jnp.inf, pre[-1])
        hidden = jnp.concatenate(pre[:-1])
        return jnp.stack([pre[-1][k], -jnp.min(hidden), jnp.max(others)])

    def onset(k: Int[Array, ""], which: Int[Array, ""]) -> Float[Array, ""]:
        return _first_crossing(lambda a: margins(a, k)[which], limit, n_grid, dtype)

    of_feature = jax.vmap(onset, in_axes=(None, 0))
    found = jax.vmap(of_feature, in_axes=(0, None))(jnp.arange(n_features), jnp.arange(3))
    return Onsets(found[:, 0], found[:, 1], found[:, 2])


def pair_table(weights: DenseWeights) -> PairTable:
    """The exact answers to every pair ``e_i + e_j``, with the hidden units that are clipped.

    Source: S0 Example 26, which works out e_1 + e_3; errata E7.
    """
    layer = weights.layers[0].W
    n_features = layer.shape[0]
    first, second = jnp.triu_indices(n_features, k=1)
    basis = jnp.eye(n_features, dtype=layer.dtype)
    output, pre = dense_forward(weights, basis[first] + basis[second])
    clipped = jnp.concatenate(pre[:-1], axis=-1) < 0
    return PairTable(first, second, output, pre[-1], clipped)


def _first_crossing(
    f: Callable[[Float[Array, ""]], Float[Array, ""]], limit: float, n_grid: int, dtype: jnp.dtype
) -> Float[Array, ""]:
    """The least a in (0, limit] where f turns from negative to positive, else infinity."""
    grid = jnp.linspace(0, limit, n_grid, dtype=dtype)
    positive = jax.vmap(f)(grid) > 0
    rises = positive[1:] & ~positive[:-1]
    cell = jnp.argmax(rises)

    def halve(
        _: Int[Array, ""], bracket: tuple[Float[Array, ""], Float[Array, ""]]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        low, high = bracket
        middle = (low + high) / 2
        above = f(middle) > 0
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    # Sixty halvings reach the last bit of either precision.
    low, high = jax.lax.fori_loop(0, 60, halve, (grid[cell], grid[cell + 1]))
    return jnp.where(rises.any(), (low + high) / 2, jnp.inf)
