"""MLPs read from their weights: composition with heads, and bilinear ones as tensors.

``score² = tr(P G)`` as for two heads (`composition`), P the Gram of what is written and G that of
what is read, at trace 1. An MLP is the stack of its hidden units, each a map of rank 1 by itself,
``W_in[:, k] W_out[k]``, since their gates open one by one:

    P ∝ Σ_k |W_in[:, k]|² W_out[k]ᵀ W_out[k]        G ∝ Σ_k |W_out[k]|² W_in[:, k] W_in[:, k]ᵀ

Neither changes when the column of a unit is multiplied by a number and its row divided by it, which
changes nothing in a gated or a ReLU MLP. What opens the units of a gated MLP weighs as much as they
move, ``G ∝ Σ_k |W_in[:, k]|² |W_out[k]|² W_gate[:, k] W_gate[:, k]ᵀ``.

A gated MLP whose activation is the identity is quadratic in what it reads, and nothing need be held
for it to be read from its weights:

    ⟨(x W_gate ∘ x W_in) W_out, u⟩ = x B_u xᵀ
    B_u = Σ_k ⟨W_out[k], u⟩ sym(W_gate[:, k] W_in[:, k]ᵀ)

Source: Pearce, Dooms, Rigg, Oramas and Sharkey 2024, "Bilinear MLPs enable weight-based mechanistic
interpretability" (docs/bibliography.md), section 3.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.composition import head_maps
from circuitax.circuits.weights.folding import fold_read
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.compiled import compiled
from circuitax.kernel.gauge import centre_last
from circuitax.kernel.linalg import gram, safe_divide, safe_sqrt, scaled_to_one, symmetric_eigen
from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.shown import shapes
from circuitax.kernel.weights import MLPWeights


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
    spectra. Norms are folded as in `composition`. Cost: one product of all heads with a
    ``d_model²`` matrix for each MLP and kind.

    Source: ours; docs/methods/composition.md. For heads: framework paper, "composition scores".
    """
    heads, mlp = head_maps(model, offset), model.blocks.mlp
    if mlp is None or mlp.W_hidden is not None:
        raise ValueError("model.blocks.mlp must be MLPs of one hidden layer")
    norm, gain = model.spec.norm, model.blocks.mlp_norm
    mlp = mlp._replace(
        W_in=fold_read(mlp.W_in, None, norm, gain)[0],
        W_out=centre_last(mlp.W_out) if norm.centres else mlp.W_out,
        W_gate=None if mlp.W_gate is None else fold_read(mlp.W_gate, None, norm, gain)[0],
    )
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


def bilinear_mlps(model: Model) -> MLPWeights:
    """A model's bilinear MLPs, ``[n_layers, ...]``, gains of their norms folded in."""
    check_one_member(model)
    mlp, spec = model.blocks.mlp, model.spec
    if mlp is None or mlp.W_gate is None:
        raise ValueError("model.blocks.mlp must be gated MLPs: gated=True and a number for d_mlp")
    if spec.activation != Activation.linear:
        raise ValueError(f"spec.activation={spec.activation} must be linear for a bilinear MLP")
    W_in, b_in = fold_read(mlp.W_in, mlp.b_in, spec.read_norm, model.blocks.mlp_norm)
    W_gate, b_gate = fold_read(mlp.W_gate, mlp.b_gate, spec.read_norm, model.blocks.mlp_norm)
    for name, bias in (("b_in", b_in), ("b_gate", b_gate)):
        if bias is not None:
            raise ValueError(f"mlp.{name} must be None, and its norm without offset")
    return mlp._replace(W_in=W_in, W_gate=W_gate)


def interaction_matrices(
    mlp: MLPWeights, directions: Float[Array, "*out d_model"]
) -> Float[Array, "*out d_model d_model"]:
    """``B_u = Σ_k ⟨W_out[k], u⟩ (g_k w_kᵀ + w_k g_kᵀ) / 2`` of each direction u, symmetric.

    ``x B_u xᵀ`` is what one layer writes along u, its ``b_out`` apart; g_k and w_k are the columns
    of ``W_gate`` and ``W_in``.

    Source: Pearce et al. 2024, section 3, the interaction matrix ``Q``.
    """
    W_gate = _gate(mlp)
    written = directions @ mlp.W_out.T
    one_way = jnp.einsum("...k,ik,jk->...ij", written, W_gate, mlp.W_in)
    return (one_way + jnp.matrix_transpose(one_way)) / 2


class Eigenvectors(NamedTuple):
    """Eigenvectors of interaction matrices, largest absolute eigenvalue first.

    ``x B xᵀ = Σ_i values[i] ⟨x, vectors[:, i]⟩²``.

    Attributes:
        values: Eigenvalues, of either sign.
        vectors: Orthonormal columns.
    """

    values: Float[Array, "*out d_model"]
    vectors: Float[Array, "*out d_model d_model"]

    def __repr__(self) -> str:
        return shapes(self)


def interaction_eigenvectors(matrices: Float[Array, "*out d_model d_model"]) -> Eigenvectors:
    """Eigenvectors of symmetric matrices such as `interaction_matrices` gives.

    Source: Pearce et al. 2024, section 3.
    """
    values, vectors = symmetric_eigen(matrices)
    order = jnp.argsort(-jnp.abs(values), axis=-1)
    return Eigenvectors(
        jnp.take_along_axis(values, order, axis=-1),
        jnp.take_along_axis(vectors, order[..., None, :], axis=-1),
    )


def output_basis(mlp: MLPWeights) -> Float[Array, "d_model d_model"]:
    """Orthonormal directions of the output, as rows, by the squared norm of their matrices.

    The left singular vectors of the tensor ``[output, (i, j)]``: ``Σ_ij B_u[i, j] B_v[i, j]`` is 0
    for two of them, and falls from row to row for one.

    Source: Pearce et al. 2024, section 3, the higher-order singular value decomposition.
    """
    tensor = interaction_matrices(mlp, jnp.eye(mlp.W_out.shape[-1], dtype=mlp.W_out.dtype))
    flat = tensor.reshape(len(tensor), -1)
    return symmetric_eigen(flat @ flat.T)[1].T[::-1]


def as_eigenvectors(mlp: MLPWeights) -> MLPWeights:
    """The same bilinear MLP with eigenvectors as hidden units: ``Σ_o Σ_i λ_oi ⟨x, v_oi⟩² u_o``.

    Source: Pearce et al. 2024, section 3.
    """
    basis = output_basis(mlp)
    found = interaction_eigenvectors(interaction_matrices(mlp, basis))
    d_model = len(basis)
    reads = jnp.moveaxis(found.vectors, -2, 0).reshape(d_model, -1)
    W_out = (found.values[..., None] * basis[:, None, :]).reshape(-1, d_model)
    return MLPWeights(W_in=reads, W_out=W_out, b_out=mlp.b_out, W_gate=reads)


def kept_eigenvectors(whole: MLPWeights, places: Int[Array, "d_model kept"]) -> MLPWeights:
    """Some eigenvectors of each output direction, the same MLP with fewer hidden units.

    Source: Pearce et al. 2024, section 4, truncation to the top eigenvectors.
    """
    d_model = whole.W_out.shape[-1]
    units = (jnp.arange(d_model)[:, None] * d_model + places).ravel()
    reads = whole.W_in[:, units]
    return whole._replace(W_in=reads, W_gate=reads, W_out=whole.W_out[units])


def token_interactions(
    matrices: Float[Array, "*out d_model d_model"],
    left: Float[Array, "n_left d_model"],
    right: Float[Array, "n_right d_model"],
) -> Chain:
    """Tables ``left B_u rightᵀ``: what a pair of tokens writes along u, beside QK and OV tables.

    Twice an entry is what a pair of two sources adds to ``x B_u xᵀ``, since they are read in both
    orders. With the embeddings on the left and ``W_E W_OV`` of a head on the right, an entry times
    twice the attention is a path from two tokens to one logit: a skip-trigram whose raise
    depends on the destination too.
    """
    return chain_of(left, matrices, right.T)


def pair_terms(
    mlp: MLPWeights,
    sources: Float[Array, "source d_model"],
    directions: Float[Array, "*out d_model"],
) -> Float[Array, "*out source source"]:
    """``x^a B_u x^bᵀ`` for all pairs of sources; their sum is what the MLP writes along u.

    An exact polynomial: with x = Σ_a x^a what the MLP reads at one position, the sum over all
    pairs is ``x B_u xᵀ``. No matrix of the width is made.
    """
    gates, values = sources @ _gate(mlp), sources @ mlp.W_in
    written = directions @ mlp.W_out.T
    one_way = jnp.einsum("...k,ak,bk->...ab", written, gates, values)
    return (one_way + jnp.matrix_transpose(one_way)) / 2


def _gate(mlp: MLPWeights) -> Array:
    if mlp.W_gate is None or mlp.W_gate.ndim != 2:
        shape = None if mlp.W_gate is None else mlp.W_gate.shape
        raise ValueError(f"mlp.W_gate has shape {shape}, must be one layer's, [d_model, d_mlp]")
    return mlp.W_gate
