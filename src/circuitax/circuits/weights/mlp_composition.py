"""Composition with MLPs: overlap of writes and reads of heads with MLPs, and of two MLPs.

``score² = tr(P G)`` as for two heads (`composition`), P the Gram of what is written and G that of
what is read, at trace 1. An MLP is the stack of its hidden units, each a map of rank 1 by itself,
``W_in[:, k] W_out[k]``, since their gates open one by one:

    P ∝ Σ_k |W_in[:, k]|² W_out[k]ᵀ W_out[k]        G ∝ Σ_k |W_out[k]|² W_in[:, k] W_in[:, k]ᵀ

Neither changes when the column of a unit is multiplied by a number and its row divided by it, which
changes nothing in a gated or a ReLU MLP. What opens the units of a gated MLP weighs as much as they
move, ``G ∝ Σ_k |W_in[:, k]|² |W_out[k]|² W_gate[:, k] W_gate[:, k]ᵀ``.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.circuits.weights.composition import head_maps
from circuitax.kernel.compiled import compiled
from circuitax.kernel.linalg import gram, safe_divide, safe_sqrt, scaled_to_one
from circuitax.kernel.model import Model
from circuitax.kernel.shown import shapes
from circuitax.kernel.weights import MLPWeights

MLP_KINDS = ("in", "gate")


class Scores(NamedTuple):
    """Scores beside their null; NaN where the reader does not come after the writer.

    Attributes:
        score: In [0, 1].
        z: ``(score² - 1/d_model) / null_std``: deviations from a random rotation between the two.
        null_std: Of the squared score; its null mean is ``1/d_model``.
    """

    score: Float[Array, "*pairs"]
    z: Float[Array, "*pairs"]
    null_std: Float[Array, "*pairs"]

    def __repr__(self) -> str:
        return shapes(self)


class MLPComposition(NamedTuple):
    """Composition of which one side, or both, is an MLP.

    Attributes:
        head_to_mlp: ``[mlp kind, writer layer, writer head, reader layer]``; a head is read by the
            MLP of its own layer too, unless both read side by side.
        mlp_to_mlp: ``[mlp kind, writer layer, reader layer]``.
        mlp_to_head: ``[kind, writer layer, reader layer, reader head]``.
    """

    head_to_mlp: Scores
    mlp_to_mlp: Scores
    mlp_to_head: Scores

    def __repr__(self) -> str:
        return shapes(self)


@compiled("offset")
def mlp_composition(model: Model, *, offset: int = 0) -> MLPComposition:
    """Scores of all pairs of a head and an MLP, and of two MLPs, with their nulls.

    Under a Haar rotation between writer and reader score² has the mean 1/d and the variance
    ``2 f(P) f(G) / ((d - 1)(d + 2))``, ``f(M) = tr M² - 1/d`` of Grams at trace 1, whatever their
    spectra. Cost: one product of all heads with a ``d_model²`` matrix for each MLP and kind.

    Source: ours; docs/methods/composition.md. For heads: framework paper, "composition scores".
    """
    heads, mlp = head_maps(model, offset), model.blocks.mlp
    if mlp is None or mlp.W_hidden is not None:
        raise ValueError("model.blocks.mlp must be MLPs of one hidden layer")
    read, written = jax.lax.map(_grams, mlp)
    read = jnp.moveaxis(read, 1, 0)  # [mlp kind, n_layers, d, d]
    near = [scaled_to_one(W)[0] for W in (heads.W_O, heads.W_Q, heads.W_K, heads.W_V)]
    W_O, W_Q, W_K, W_V = near
    turned = jnp.matrix_transpose
    sides = [(turned(W_O), gram(W_V)), (W_Q, gram(W_K)), (W_K, gram(W_Q))]
    sides.append((W_V, gram(turned(W_O))))
    (writes, f_writes), *reads = [_head_traces(*side) for side in sides]
    to_mlp = jnp.stack([_with_heads(*sides[0], writes, G) for G in read])
    to_head = jnp.stack(
        [_with_heads(*side, r[0], written) for side, r in zip(sides[1:], reads, strict=True)]
    )
    f_read, f_written = _f(read), _f(written)
    f_reads = jnp.stack([f for _, f in reads])
    layer = jnp.arange(len(written))
    later = layer[:, None] < layer[None]
    behind = later if model.spec.parallel else layer[:, None] <= layer[None]
    between = jnp.einsum("lij,kmij->klm", written, read)
    d = model.d_model
    return MLPComposition(
        _beside_null(
            jnp.moveaxis(to_mlp, 1, -1),
            f_writes[None, :, :, None],
            f_read[:, None, None, :],
            behind[None, :, None, :],
            d,
        ),
        _beside_null(between, f_written[None, :, None], f_read[:, None, :], later[None], d),
        _beside_null(
            to_head,
            f_written[None, :, None, None],
            f_reads[:, None],
            later[None, :, :, None],
            d,
        ),
    )


def _grams(mlp: MLPWeights) -> tuple[Array, Array]:
    """Grams of one MLP at trace 1: of what it reads, by kind, and of what it writes."""
    W_in, W_out = scaled_to_one(mlp.W_in)[0], scaled_to_one(mlp.W_out)[0]
    reads, writes = (W_in**2).sum(axis=0), (W_out**2).sum(axis=1)
    weighted = [W_in * safe_sqrt(writes)[None]]
    if mlp.W_gate is not None:
        weighted.append(scaled_to_one(mlp.W_gate)[0] * safe_sqrt(reads * writes)[None])
    read = jnp.stack([_at_trace_one(W @ W.T) for W in weighted])
    return read, _at_trace_one(gram(W_out * safe_sqrt(reads)[:, None]))


def _at_trace_one(G: Array) -> Array:
    return safe_divide(G, jnp.trace(G))


def _f(G: Array) -> Array:
    """``tr G² - 1/d`` of Grams at trace 1."""
    return (G**2).sum(axis=(-2, -1)) - 1 / G.shape[-1]


def _head_traces(near: Array, far: Array) -> tuple[Array, Array]:
    """The trace of ``near far nearᵀ`` of every head, and f of it at trace 1."""
    M = gram(near) @ far
    trace = jnp.trace(M, axis1=-2, axis2=-1)
    square = jnp.einsum("...ij,...ji->...", M, M)
    return trace, safe_divide(square, trace**2) - 1 / near.shape[-2]


def _with_heads(near: Array, far: Array, trace: Array, G: Array) -> Array:
    """``tr(near far nearᵀ G)`` at trace 1 of every head with each G, those of MLPs in front."""

    def with_one(G: Array) -> Array:
        seen = jnp.einsum("lhik,ij,lhjm->lhkm", near, G, near, optimize="optimal")
        return safe_divide(jnp.einsum("lhkm,lhkm->lh", seen, far), trace)

    return jax.lax.map(with_one, G)


def _beside_null(squared: Array, f_write: Array, f_read: Array, may: Array, d: int) -> Scores:
    """Scores with z, NaN where the reader comes first."""
    null_std = safe_sqrt(2 * f_write * f_read / ((d - 1) * (d + 2)))
    # A Gram of zeros has f = -1/d.
    alive = (f_write > -0.5 / d) & (f_read > -0.5 / d)
    z = jnp.where(alive, safe_divide(squared - 1 / d, null_std), jnp.nan)
    each = (safe_sqrt(squared), z, null_std)
    return Scores(*(jnp.where(may, part, jnp.nan) for part in each))
