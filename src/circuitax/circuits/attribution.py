"""Direct logit attribution: what each component, head and source position adds to a logit."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.components import Components, stacked
from circuitax.circuits.folding import fold_read, over_heads
from circuitax.circuits.read_out import ReadOut, logits_along, token_directions
from circuitax.kernel.interventions import Trace
from circuitax.kernel.linalg import norm
from circuitax.kernel.norm import Norm
from circuitax.kernel.spec import ForwardSpec
from circuitax.kernel.weights import TransformerWeights


class Attribution(NamedTuple):
    """Logits (or differences) at each position, by component."""

    parts: Components
    """Each field without its ``d_model`` axis."""
    bias: Float[Array, " n_ctx"]
    remainder: Float[Array, " n_ctx"]
    """Logit minus parts and bias: rounding."""


def attribute(
    parts: Components,
    read_out: ReadOut,
    logits: Float[Array, "n_ctx d_vocab"],
    chosen: Int[Array, " n_ctx"],
    against: Int[Array, " n_ctx"] | None = None,
) -> Attribution:
    """The logit of one token at each position, or its lead over another, split by component.

    Args:
        parts: From `components.components_of`.
        read_out: Of the same run, final norm frozen.
        logits: Of the same run.
        chosen: Token whose logit is explained, such as the next one.
        against: Token whose logit is subtracted.

    Source: framework paper; "direct logit attribution".
    """
    directions = token_directions(read_out, chosen, against)
    split = jax.tree.map(lambda part: logits_along(part, directions, read_out), parts)
    rows = jnp.arange(chosen.shape[0])
    whole = logits[rows, chosen]
    bias = jnp.zeros_like(whole) if read_out.b_U is None else read_out.b_U[chosen]
    if against is not None:
        whole = whole - logits[rows, against]
        bias = bias if read_out.b_U is None else bias - read_out.b_U[against]
    return Attribution(split, bias, whole - stacked(split).sum(axis=0) - bias)


def attribute_sources(
    weights: TransformerWeights,
    spec: ForwardSpec,
    trace: Trace,
    read_out: ReadOut,
    directions: Float[Array, "n_ctx d_model"],
) -> Float[Array, "n_layers n_heads dest src"]:
    """The same for heads, by the position that the head read: ``A_ts (v_s W_O) · w_t``.

    Summed over sources it is the head's entry of `attribute`: value biases go with the attention.

    Args:
        weights: Any transformer.
        spec: Static.
        trace: Of the run.
        read_out: Of the run.
        directions: From `read_out.token_directions`, one for each destination.
    """
    values = _values(weights, spec, trace)
    w = directions if read_out.scale is None else directions / read_out.scale[:, None]
    wanted = jnp.einsum("lhkd,td->lhtk", weights.blocks.attention.W_O, w)
    return trace.patterns * jnp.einsum("lhtk,lhsk->lhts", wanted, values)


def value_weighted(
    weights: TransformerWeights, spec: ForwardSpec, trace: Trace
) -> Float[Array, "n_layers n_heads dest src"]:
    """``A_ts ‖v_s W_O‖``: attention weighted by how much it moves.

    Source: framework paper, attention viewers ("value-weighted patterns").
    Differs: the norm is taken of what is written, which no basis inside the head changes.
    """
    values = _values(weights, spec, trace)
    written = jnp.einsum("lhsk,lhkd->lhsd", values, weights.blocks.attention.W_O)
    return trace.patterns * norm(written)[:, :, None, :]


def _values(
    weights: TransformerWeights, spec: ForwardSpec, trace: Trace
) -> Float[Array, "n_layers n_heads n_ctx d_value"]:
    """The values that each head moved in a run, biases included."""
    heads = weights.blocks.attention
    W_V, b_V = fold_read(heads.W_V, heads.b_V, spec.norm, over_heads(weights.blocks.attention_norm))
    read = trace.streams[:-1]
    if spec.norm != Norm.none and trace.scales.attention is not None:
        read = read / trace.scales.attention[..., None]
    values = jnp.einsum("lsd,lhdk->lhsk", read, W_V)
    if b_V is not None:
        values = values + b_V[:, :, None, :]
    return values
