"""Norms folded into the weights that read through them, and the price of a constant divisor.

``((x - μ)/σ · γ + β) W + b = (1/σ) x [(I - 1 1ᵀ/d) diag(γ) W] + [β W + b]``. What is left of a
norm is one divisor for each position, σ, which no weight can absorb.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.interventions import Interventions, NormScales
from circuitax.kernel.model import Model, check_one_member
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import NormWeights


def fold_read(
    W: Float[Array, "*batch d_model d_out"],
    b: Float[Array, "*batch d_out"] | None,
    norm: Norm,
    weights: NormWeights | None,
) -> tuple[Float[Array, "*batch d_model d_out"], Float[Array, "*batch d_out"] | None]:
    """``(W', b')`` with ``norm(x) W + b = x W' / σ(x) + b'``.

    Source: S0 section 2.3, assumption 3 ("approximately absorbed"); this part is exact.
    """
    if norm == Norm.none:
        return W, b
    if weights is not None:
        if weights.offset is not None:
            from_offset = jnp.einsum("...d,...dk->...k", weights.offset, W)
            b = from_offset if b is None else from_offset + b
        W = weights.gain[..., None] * W
    return (_centred(W, axis=-2) if norm.centres else W), b


def check_pre_ln(model: Model, what: str) -> None:
    """Refuse a post-LN model, for analyses that add up what was written to the stream."""
    if model.spec.post_ln:
        raise ValueError(
            f"spec.post_ln=True must be False for {what}: a norm after each addition multiplies "
            "what passes by too; path_streams(frozen_model(run)) has its paths"
        )


def over_heads(norm: NormWeights | None) -> NormWeights | None:
    """A layer's norm with an axis for its heads, as `fold_read` needs it."""
    if norm is None:
        return None
    offset = None if norm.offset is None else norm.offset[..., None, :]
    return NormWeights(norm.gain[..., None, :], offset)


@compiled()
def fold_norms(model: Model) -> Model:
    """The same model with bare norms, without gain and offset, and where possible without centring.

    Gain and offset move into the weights that read; norms of queries, of keys and of what is
    written stay as they are. Under a final norm, the weights that write
    (embeddings, ``W_O``, ``W_out``, biases) are centred as well, so that the stream has mean 0 by
    itself and an RMS norm is enough. Without a final norm the unembedding would see the mean that
    this removes, and sinusoidal positions are no weights: the norm then keeps its centring.

    Args:
        model: Any transformer; one model, not an ensemble.

    Returns:
        A model with the same logits, patterns and norm scales.

    Raises:
        ValueError: If the model is an ensemble, its norms follow the additions (post-LN), or
            positions are added between norm and queries, where a gain cannot be folded.

    Source: S0 section 2.3, assumption 3.
    """
    check_one_member(model)
    check_pre_ln(model, "fold_norms")
    spec, blocks = model.spec, model.blocks
    if spec.norm == Norm.none:
        return model
    if spec.positions.in_queries_and_keys and blocks.attention_norm is not None:
        raise ValueError(
            f"spec.positions={spec.positions.value} follows the norm; its gain cannot be folded"
        )
    heads = blocks.attention
    per_head = over_heads(blocks.attention_norm)
    W_V, b_V = fold_read(heads.W_V, heads.b_V, spec.norm, per_head)
    heads = heads._replace(W_V=W_V, b_V=b_V)
    # Positions added after the norm are not centred, its output is: these reads stay as they are.
    if not spec.positions.in_queries_and_keys:
        W_Q, b_Q = fold_read(heads.W_Q, heads.b_Q, spec.norm, per_head)
        W_K, b_K = fold_read(heads.W_K, heads.b_K, spec.norm, per_head)
        heads = heads._replace(W_Q=W_Q, b_Q=b_Q, W_K=W_K, b_K=b_K)
    mlp = blocks.mlp
    if mlp is not None:
        W_in, b_in = fold_read(mlp.W_in, mlp.b_in, spec.norm, blocks.mlp_norm)
        mlp = mlp._replace(W_in=W_in, b_in=b_in)
        if mlp.W_gate is not None:
            W_gate, b_gate = fold_read(mlp.W_gate, mlp.b_gate, spec.norm, blocks.mlp_norm)
            mlp = mlp._replace(W_gate=W_gate, b_gate=b_gate)
    W_U, b_U = model.W_U, model.b_U
    if spec.final_norm:
        W_U, b_U = fold_read(W_U, b_U, spec.norm, model.final_norm)
    folded = model.replace(
        blocks=blocks._replace(attention=heads, attention_norm=None, mlp=mlp, mlp_norm=None),
        W_U=W_U,
        b_U=b_U,
        final_norm=None,
    )
    if not spec.norm.centres:
        return folded
    if not spec.final_norm or spec.positions == Positions.sinusoidal:
        return folded.with_options(norm=Norm.layernorm_pre)
    return _centre_writers(folded).with_options(norm=Norm.rmsnorm)


def _centre_writers(model: Model) -> Model:
    heads, mlp = model.blocks.attention, model.blocks.mlp
    b_O = None if heads.b_O is None else _centred(heads.b_O, axis=-1)
    heads = heads._replace(W_O=_centred(heads.W_O, axis=-1), b_O=b_O)
    if mlp is not None:
        b_out = None if mlp.b_out is None else _centred(mlp.b_out, axis=-1)
        mlp = mlp._replace(W_out=_centred(mlp.W_out, axis=-1), b_out=b_out)
    W_pos = model.W_pos
    if W_pos is not None and model.spec.positions.in_stream:
        W_pos = _centred(W_pos, axis=-1)
    return model.replace(
        W_E=_centred(model.W_E, axis=-1),
        W_pos=W_pos,
        blocks=model.blocks._replace(attention=heads, mlp=mlp),
    )


def _centred(x: Array, axis: int) -> Array:
    return x - jnp.mean(x, axis=axis, keepdims=True)


class NormPrice(NamedTuple):
    """Mean next-token losses in nats.

    Attributes:
        loss: Loss of the model.
        constant: Loss with every norm's divisor at its mean over positions and texts.
        price: Their difference: what it costs to ignore that the divisor varies.
    """

    loss: Float[Array, ""]
    constant: Float[Array, ""]
    price: Float[Array, ""]


def norm_price(model: Model, texts: Int[Array, "*batch n_ctx"]) -> NormPrice:
    """The loss when every norm divides by a constant, minus the loss.

    Source: S0 section 2.3, assumption 3.
    """

    def losses(text: Array, scales: NormScales) -> Array:
        logits, _ = forward(model, text, Interventions(scales=scales))
        return next_token_losses(logits, text)

    def scales_of(text: Array) -> NormScales:
        return forward(model, text)[1].scales

    scales = jax.vmap(scales_of)(texts)
    means = jax.tree.map(
        lambda x: jnp.broadcast_to(x.mean(axis=(0, -1), keepdims=True)[0], x.shape[1:]), scales
    )
    loss = jax.vmap(losses, in_axes=(0, None))(texts, NormScales()).mean()
    constant = jax.vmap(losses, in_axes=(0, None))(texts, means).mean()
    return NormPrice(loss, constant, constant - loss)
