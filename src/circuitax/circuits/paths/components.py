"""The final stream as a sum of components, and what each adds to the logits.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from circuitax.circuits.weights.folding import check_pre_ln, fold_read, over_heads
from circuitax.display.tables import documented
from circuitax.kernel.attention import per_head
from circuitax.kernel.compiled import compiled
from circuitax.kernel.gauge import centre_last, centre_vocabulary
from circuitax.kernel.interventions import TRACED
from circuitax.kernel.linalg import norm
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import Run, one_text, unedited
from circuitax.kernel.shown import shapes


class ReadOut(NamedTuple):
    """``logits = (x / scale) W_U + b_U`` with the final norm folded into ``W_U`` and ``b_U``."""

    scale: Float[Array, " n_ctx"] | None
    W_U: Float[Array, "d_model d_vocab"]
    b_U: Float[Array, " d_vocab"] | None


def read_out_of(run: Run) -> ReadOut:
    """The read-out of one text; exact for the run's own final scale."""
    model = one_text(run).model
    if model.spec.logit_cap is not None:
        raise ValueError(
            f"logit_cap={model.spec.logit_cap} must be None to split logits into a sum: make "
            "the run with model.with_options(logit_cap=None)"
        )
    norm = model.spec.norm
    if not model.spec.final_norm or norm == Norm.none:
        return ReadOut(None, model.W_U, model.b_U)
    W_U, b_U = fold_read(model.W_U, model.b_U, norm, model.final_norm)
    return ReadOut(run.trace.scales.final, W_U, b_U)


def logits_of(
    parts: Float[Array, "*parts n_ctx d_model"], read_out: ReadOut
) -> Float[Array, "*parts n_ctx d_vocab"]:
    """Logits of parts of the final stream, without the constant ``b_U``."""
    return _scaled(parts, read_out) @ read_out.W_U


def logits_along(
    parts: Float[Array, "*parts n_ctx d_model"],
    directions: Float[Array, "n_ctx d_model"],
    read_out: ReadOut,
) -> Float[Array, "*parts n_ctx"]:
    """`logits_of` along one direction for each position, without work on the whole vocabulary."""
    return jnp.einsum("...td,td->...t", _scaled(parts, read_out), directions)


def token_directions(
    read_out: ReadOut,
    chosen: Int[Array, " n_ctx"],
    against: Int[Array, " n_ctx"] | None = None,
) -> Float[Array, "n_ctx d_model"]:
    """Directions that read the logit of one token at each position, or a difference of two."""
    _check_ids("chosen", chosen, read_out)
    if against is not None:
        _check_ids("against", against, read_out)
    directions = read_out.W_U[:, chosen]
    if against is not None:
        directions = directions - read_out.W_U[:, against]
    return directions.T


def _check_ids(name: str, ids: Int[Array, " n_ctx"], read_out: ReadOut) -> None:
    d_vocab = read_out.W_U.shape[1]
    if isinstance(ids, jax.core.Tracer):
        return
    for token in np.unique(np.asarray(ids)):
        if not 0 <= token < d_vocab:
            raise ValueError(f"{name} has the id {token}, must lie in [0, {d_vocab=})")


def _scaled(parts: Array, read_out: ReadOut) -> Array:
    if read_out.scale is None:
        return parts
    return parts / jnp.broadcast_to(read_out.scale[:, None], parts.shape)


@documented
class Components(NamedTuple):
    """Each component's output to the stream; absent ones are None.

    Attributes:
        tokens: The embeddings of the tokens.
        positions: What the position scheme added.
        heads: What each head wrote.
        mlps: What each MLP wrote.
        b_O: The bias that the heads of a layer share, repeated at each position.
    """

    tokens: Float[Array, "n_ctx d_model"]
    positions: Float[Array, "n_ctx d_model"] | None
    heads: Float[Array, "n_layers n_heads n_ctx d_model"]
    mlps: Float[Array, "n_layers n_ctx d_model"] | None
    b_O: Float[Array, "n_layers n_ctx d_model"] | None

    def __repr__(self) -> str:
        return shapes(self)


@documented
class ComponentLogits(NamedTuple):
    """The logits of each component; with ``bias`` and ``remainder`` they sum to the logits.

    Attributes:
        parts: Each field's last axis is ``d_vocab`` instead of ``d_model``.
        bias: ``b_U`` and the final norm's offset, which belong to no component.
        remainder: Logits minus all of these: rounding.
    """

    parts: Components
    bias: Float[Array, " d_vocab"]
    remainder: Float[Array, "n_ctx d_vocab"]

    @property
    def by_layer(self) -> Float[Array, "n_layers n_ctx d_vocab"]:
        """What each layer adds: its heads, ``b_O`` and its MLP."""
        parts = self.parts
        rest = [part for part in (parts.mlps, parts.b_O) if part is not None]
        return sum(rest, start=parts.heads.sum(axis=1))

    def __repr__(self) -> str:
        return shapes(self)


def components_of(run: Run) -> Components:
    """The components of one run.

    Source: S0 section 2.2; framework paper, "residual stream as a communication channel".
    """
    one_text(run)
    model, trace = run.model, run.trace
    check_pre_ln(model, "sums of components")
    if trace.head_outputs is None:
        raise ValueError("run.trace.head_outputs is None: make the run with outputs=True")
    embedded = jnp.asarray(model.W_E)[run.tokens]
    b_O = model.blocks.attention.b_O
    if b_O is not None:
        b_O = jnp.repeat(b_O[:, None, :], run.tokens.shape[0], axis=1)
    return Components(
        embedded,
        trace.streams[0] - embedded if model.spec.positions.in_stream else None,
        trace.head_outputs,
        trace.mlp_outputs,
        b_O,
    )


def stacked(parts: Components) -> Float[Array, "n_parts n_ctx *d_out"]:
    """All parts along one axis, in the order of `component_names`."""
    blocks = [parts.tokens[None]]
    if parts.positions is not None:
        blocks.append(parts.positions[None])
    blocks.append(parts.heads.reshape(-1, *parts.heads.shape[2:]))
    blocks += [part for part in (parts.mlps, parts.b_O) if part is not None]
    return jnp.concatenate(blocks)


def component_names(parts: Components) -> tuple[str, ...]:
    """Names such as ``tokens``, ``positions``, ``head 0.3``, ``mlp 1``, ``b_O 1``."""
    n_layers, n_heads = parts.heads.shape[:2]
    names = ["tokens"] + ["positions"] * (parts.positions is not None)
    names += [f"head {layer}.{head}" for layer in range(n_layers) for head in range(n_heads)]
    for name, part in (("mlp", parts.mlps), ("b_O", parts.b_O)):
        names += [f"{name} {layer}" for layer in range(n_layers)] * (part is not None)
    return tuple(names)


@compiled()
def component_logits(run: Run) -> ComponentLogits:
    """What every component adds to the logits, through the frozen final norm and unembedding.

    Args:
        run: A run on one text, made with ``outputs=True``; the remainder is taken against its
            logits.

    Raises:
        ValueError: As `components_of`.

    Source: TransformerLens calls the same sum "direct logit attribution".
    """
    read_out, logits = read_out_of(run), run.logits
    read = jax.tree.map(lambda part: logits_of(part, read_out), components_of(run))
    b_U = read_out.b_U
    bias = jnp.zeros(logits.shape[-1], logits.dtype) if b_U is None else b_U
    explained = stacked(read).sum(axis=0) + bias[None, :]
    return ComponentLogits(read, bias, logits - explained)


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
    return Run(centred, run.tokens, centre_last(run.logits), run.trace, run.edited)


def attribute_sources(
    run: Run, directions: Float[Array, "n_ctx d_model"]
) -> Float[Array, "n_layers n_heads dest src"]:
    """The heads' share of a logit, by source position: ``A_ts (v_s W_O) · w_t``."""
    check_pre_ln(unedited(run, TRACED).model, "attribute_sources")
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
