"""Bilinear MLPs as third-order tensors: interaction matrices, their eigenvectors, and truncation.

A gated MLP whose activation is the identity is quadratic in what it reads, and nothing need be held
for it to be read from its weights:

    ⟨(x W_gate ∘ x W_in) W_out, u⟩ = x B_u xᵀ
    B_u = Σ_k ⟨W_out[k], u⟩ sym(W_gate[:, k] W_in[:, k]ᵀ)

Under a norm x is what the norm gives: one divisor for each position is left, squared.

Source: Pearce, Dooms, Rigg, Oramas and Sharkey 2024, "Bilinear MLPs enable weight-based mechanistic
interpretability" (docs/bibliography.md), section 3.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.folding import fold_read
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.linalg import symmetric_eigen
from circuitax.kernel.mlp import Activation
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.shown import shapes
from circuitax.kernel.weights import MLPWeights


def bilinear_mlps(model: Model) -> MLPWeights:
    """The MLPs of a model with bilinear ones, ``[n_layers, ...]``, gains of their norms folded in."""
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
    if len(places) != d_model:
        raise ValueError(f"places has {len(places)} rows, must have d_model={d_model}")
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
