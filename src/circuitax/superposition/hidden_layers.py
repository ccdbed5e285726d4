"""Networks with a hidden layer: absolute values, and responses to features and pairs.

All functions take one model's ``W_in [n_features, n_hidden]`` and ``W_out [n_hidden, n_features]``
of ``y = ReLU(ReLU(x W_in) W_out + b)``. They do not change when a neuron's input weights are
multiplied and its output weights divided by one positive number; use ``jax.vmap`` for several
models.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.toy import dense_forward
from circuitax.kernel.weights import DenseWeights


class Motif(NamedTuple):
    """Asymmetric superposition: neuron k reads i strongly and j weakly, and writes j strongly.

    Attributes:
        in_ratio: ``|W_in[i, k]| / |W_in[j, k]|``, 4 in the paper's example.
        out_ratio: ``W_out[k, j] / W_out[k, i]``, 4 in the paper's example.
        inhibition: What all other neurons take back of the neuron's effect of i on output j: 1 for
            all of it.
    """

    found: Bool[Array, "k i j"]
    in_ratio: Float[Array, "k i j"]
    out_ratio: Float[Array, "k i j"]
    inhibition: Float[Array, "k i j"]


def gains(
    W_in: Float[Array, "n_features n_hidden"], W_out: Float[Array, "n_hidden n_features"]
) -> Float[Array, "sign n_hidden n_features n_features"]:
    """Slope of every neuron's part of output j against ``|x_i|``, alone: ``ReLU(±W_in) W_out``."""
    positive = jnp.maximum(W_in, 0).T[:, :, None] * W_out[:, None, :]
    negative = jnp.maximum(-W_in, 0).T[:, :, None] * W_out[:, None, :]
    return jnp.stack([positive, negative])


def serving(
    W_in: Float[Array, "n_features n_hidden"], W_out: Float[Array, "n_hidden n_features"]
) -> Float[Array, "n_hidden n_features"]:
    """``|W_in[i, k]| W_out[k, i]``: neuron k's share of ``|x_i|`` on one side; 1 is all."""
    return jnp.abs(W_in).T * W_out


def asymmetric_motif(
    W_in: Float[Array, "n_features n_hidden"],
    W_out: Float[Array, "n_hidden n_features"],
    *,
    least_serving: float = 0.5,
    least_ratio: float = 1.5,
    least_inhibition: float = 0.5,
) -> Motif:
    """Asymmetric superposition: two features share a neuron, and other neurons undo the damage.

    Source: toy-models paper, "Computation in superposition" (asymmetric superposition motif: input
        weights 2 and -1/2, output weights 1/2 and 2, and an inhibiting neuron).
    Differs: the paper shows an example; the thresholds are ours.
    """
    size, does = jnp.abs(W_in).T, serving(W_in, W_out)
    opposite = (W_in.T[:, :, None] * W_in.T[:, None, :]) < 0
    in_ratio = _ratio(size[:, :, None], size[:, None, :])
    out_ratio = _ratio(W_out[:, None, :], W_out[:, :, None])
    slope = gains(W_in, W_out)
    # The side of feature i that neuron k sees.
    side = jnp.where(W_in.T[:, :, None] > 0, slope[0], slope[1])
    total = jnp.where(
        W_in.T[:, :, None] > 0, jnp.sum(slope[0], axis=0)[None], jnp.sum(slope[1], axis=0)[None]
    )
    inhibition = _ratio(side - total, side)
    found = (
        (jnp.minimum(does[:, :, None], does[:, None, :]) >= least_serving)
        & opposite
        & (in_ratio >= least_ratio)
        & (out_ratio >= least_ratio)
        & (inhibition >= least_inhibition)
    )
    return Motif(found, in_ratio, out_ratio, inhibition)


def _ratio(above: Array, below: Array) -> Array:
    """``above / below``, and 0 where below is 0; shapes may differ by axes of length 1."""
    above, below = jnp.broadcast_arrays(above, below)
    return jnp.where(below != 0, above / jnp.where(below != 0, below, 1), 0)


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
    n_features = weights.layers[0].W.shape[0]
    dtype = weights.layers[0].W.dtype

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
