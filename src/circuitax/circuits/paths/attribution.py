"""Direct logit attribution: contributions of components, heads and source positions to a logit."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.circuits.paths.components import Components, components_of, stacked
from circuitax.circuits.paths.read_out import logits_along, read_out_of, token_directions
from circuitax.circuits.weights.folding import check_pre_ln, fold_read, over_heads
from circuitax.kernel.attention import per_head
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.linalg import norm
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run, one_text


class Attribution(NamedTuple):
    """Logits (or differences) at each position, by component.

    Attributes:
        parts: The fields of `Components`, each without its ``d_model`` axis.
        remainder: Logit minus parts and bias: rounding errors only.
    """

    parts: Components
    bias: Float[Array, " n_ctx"]
    remainder: Float[Array, " n_ctx"]


def attribute(
    run: Run,
    chosen: Int[Array, " n_ctx"],
    against: Int[Array, " n_ctx"] | None = None,
) -> Attribution:
    """The logit of one token at each position, or its lead over another, split by component.

    Source: framework paper; "direct logit attribution".
    """
    parts, read_out, logits = components_of(run), read_out_of(run), run.logits
    directions = token_directions(read_out, chosen, against)
    split = jax.tree.map(lambda part: logits_along(part, directions, read_out), parts)
    rows = jnp.arange(chosen.shape[0])
    whole = logits[rows, chosen]
    bias = jnp.zeros_like(whole) if read_out.b_U is None else read_out.b_U[chosen]
    if against is not None:
        whole = whole - logits[rows, against]
        bias = bias if read_out.b_U is None else bias - read_out.b_U[against]
    return Attribution(split, bias, whole - stacked(split).sum(axis=0) - bias)


def over_mean_token(run: Run) -> Run:
    """The run with logits relative to their mean over the vocabulary: no probability changes."""
    model = run.model
    b_U = None if model.b_U is None else centre_last(model.b_U)
    centred = model.replace(W_U=centre_vocabulary(model.W_U), b_U=b_U)
    return Run(centred, run.tokens, centre_last(run.logits), run.trace)


def attribute_sources(
    run: Run, directions: Float[Array, "n_ctx d_model"]
) -> Float[Array, "n_layers n_heads dest src"]:
    """The heads' share of a logit, by source position: ``A_ts (v_s W_O) · w_t``."""
    check_pre_ln(one_text(run).model, "attribute_sources")
    values, scale = _values(run), read_out_of(run).scale
    w = directions if scale is None else directions / scale[:, None]
    wanted = jnp.einsum("lhkd,td->lhtk", per_head(run.model).W_O, w)
    return _moved(run) * jnp.einsum("lhtk,lhsk->lhts", wanted, values)


def value_weighted(run: Run) -> Float[Array, "n_layers n_heads dest src"]:
    """``A_ts ‖v_s W_O‖``: attention weighted by the norm of the moved value.

    Source: framework paper, attention viewers ("value-weighted patterns").
    Differs: this is the norm of what is written, which does not depend on the head's basis.
    """
    values = _values(run)
    written = jnp.einsum("lhsk,lhkd->lhsd", values, per_head(run.model).W_O)
    return _moved(run) * norm(written)[:, :, None, :]


def _moved(run: Run) -> Float[Array, "n_layers n_heads dest src"]:
    """Patterns, over the divisors of norms after attention."""
    after = run.trace.scales.attention_post
    return run.trace.patterns if after is None else run.trace.patterns / after[:, None, :, None]


def _values(run: Run) -> Float[Array, "n_layers n_heads n_ctx d_value"]:
    """The values moved by each head in a run, biases included."""
    one_text(run)
    blocks, trace, kind = run.model.blocks, run.trace, run.model.spec.read_norm
    heads = per_head(run.model)
    W_V, b_V = fold_read(heads.W_V, heads.b_V, kind, over_heads(blocks.attention_norm))
    read = trace.streams[:-1]
    if kind != Norm.none and trace.scales.attention is not None:
        read = read / trace.scales.attention[..., None]
    values = jnp.einsum("lsd,lhdk->lhsk", read, W_V)
    if b_V is not None:
        values = values + b_V[:, :, None, :]
    return values
