"""Edits of one head, one layer, or the stream before one, on top of a run.

Each returns `Interventions` for ``run(model, tokens, edit)``, in which later heads react; only
`interventions.freeze` holds them. What is left out of an edit stays as the model computes it.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.checks import check_index, check_range, chosen_of, shortened
from circuitax.kernel.interventions import Interventions, check_edit
from circuitax.kernel.run import Run, check_run

Index = int | Int[Array, ""]  # one that is traced is not checked


def patch_pattern(
    run: Run,
    head: tuple[Index, Index],
    pattern: Float[Array, "dest src"],
    *,
    edit: Interventions | None = None,
) -> Interventions:
    """The edit that sets the attention pattern of one head; all other heads compute their own.

    Args:
        run: Whose sizes the edit has.
        head: Layer and head, both from 0.
        pattern: Attention from each destination to each source, ``[n_ctx, n_ctx]``, finite.
        edit: Edits made at the same time; None for none.

    Raises:
        ValueError: If the model has no such head, or the pattern has another shape or is not
            finite.
    """
    layer, number = _head(run, head)
    n_ctx = run.tokens.shape[-1]
    pattern = _checked("pattern", pattern, [(n_ctx, n_ctx)])
    edit = _joined(edit)
    if edit.all_patterns is not None:
        return edit._replace(all_patterns=edit.all_patterns.at[layer, number].set(pattern))
    heads = (run.model.n_layers, run.model.n_heads)
    patterns, frozen = edit.patterns, edit.pattern_frozen
    if patterns is None or frozen is None:
        patterns, frozen = jnp.zeros((*heads, n_ctx, n_ctx), pattern.dtype), jnp.zeros(heads, bool)
    return edit._replace(
        patterns=patterns.at[layer, number].set(pattern),
        pattern_frozen=frozen.at[layer, number].set(True),
    )


def patch_head(
    run: Run,
    head: tuple[Index, Index],
    output: Float[Array, "#n_ctx d_model"],
    *,
    positions: Sequence[int] | None = None,
    edit: Interventions | None = None,
) -> Interventions:
    """The edit that sets the output of one head, for instance to that of another run.

    Args:
        run: Whose sizes the edit has.
        head: Layer and head, both from 0.
        output: What it writes, ``[n_ctx, d_model]``, or one row for all positions; finite.
        positions: Where; None for all positions. Elsewhere the head writes what it finds.
        edit: Edits made at the same time; None for none.

    Raises:
        ValueError: If the model has no such head, a position is out of range, or the output has
            another shape or is not finite.
    """
    layer, number = _head(run, head)
    keep, add = _replaced(run, "output", output, positions)
    edit = _joined(edit)
    heads = (run.model.n_layers, run.model.n_heads, keep.size)
    keeps = jnp.ones(heads, add.dtype) if edit.head_keep is None else edit.head_keep
    adds = jnp.zeros((*heads, add.shape[1]), add.dtype) if edit.head_add is None else edit.head_add
    keeps, adds = _spread(keeps, 2, keep.size), _spread(adds, 2, keep.size)
    return edit._replace(
        head_keep=keeps.at[layer, number].multiply(keep),
        head_add=adds.at[layer, number].set(keep[:, None] * adds[layer, number] + add),
    )


def ablate_head(
    run: Run,
    head: tuple[Index, Index],
    *,
    positions: Sequence[int] | None = None,
    edit: Interventions | None = None,
) -> Interventions:
    """The edit under which one head writes nothing; later heads react.

    A norm behind attention (gemma2, gemma3, olmo2) keeps its divisor, so that heads stay a sum. It
    reacts, as where a hook sets ``z``, to ``patch_activation(run, "z", head, zeros)``.

    Args:
        run: Whose sizes the edit has.
        head: Layer and head, both from 0.
        positions: Where; None for all positions.
        edit: Edits made at the same time; None for none.

    Raises:
        ValueError: If the model has no such head, or a position is out of range.
    """
    nothing = jnp.zeros((1, check_run(run).model.d_model), run.logits.dtype)
    return patch_head(run, head, nothing, positions=positions, edit=edit)


def patch_stream(
    run: Run,
    layer: Index,
    stream: Float[Array, "#n_ctx d_model"],
    *,
    positions: Sequence[int] | None = None,
    edit: Interventions | None = None,
) -> Interventions:
    """The edit that sets the stream before one layer, for instance to that of another run.

    Args:
        run: Whose sizes the edit has.
        layer: From 0; ``n_layers`` for the final stream.
        stream: ``[n_ctx, d_model]``, or one row for all positions; finite.
        positions: Where; None for all positions. Elsewhere the stream is what it is.
        edit: Edits made at the same time; None for none.

    Raises:
        ValueError: If the layer or a position is out of range, or the stream has another shape or
            is not finite.
    """
    check_run(run)
    check_index("layer", layer, run.model.n_layers + 1)
    keep, add = _replaced(run, "stream", stream, positions)
    edit = _joined(edit)
    places = (run.model.n_layers + 1, keep.size)
    keeps = jnp.ones(places, add.dtype) if edit.stream_keep is None else edit.stream_keep
    adds = edit.stream_add
    adds = jnp.zeros((*places, add.shape[1]), add.dtype) if adds is None else adds
    keeps, adds = _spread(keeps, 1, keep.size), _spread(adds, 1, keep.size)
    return edit._replace(
        stream_keep=keeps.at[layer].multiply(keep),
        stream_add=adds.at[layer].set(keep[:, None] * adds[layer] + add),
    )


def patch_activation(
    run: Run,
    name: str,
    at: Index | tuple[Index, Index],
    value: Float[Array, "n_ctx width"],
    *,
    positions: Sequence[int] | None = None,
    edit: Interventions | None = None,
) -> Interventions:
    """The edit that sets a value inside one head or MLP, for instance to that of another run.

    Args:
        run: Whose sizes the edit has, made with ``outputs=True``.
        name: As on a run: ``"q"``, ``"k"``, ``"v"``, ``"z"`` or ``"scores"`` of a head; ``"mid"``,
            ``"pre"``, ``"pre_linear"``, ``"post"`` or ``"mlp_outputs"`` of a layer.
        at: Layer and head, or the layer alone, from 0.
        value: As large as what it replaces; finite.
        positions: Where (of scores: the destinations); None for all positions.
        edit: Edits made at the same time; None for none.

    Raises:
        ValueError: If the model has no such thing or place, or the value has another shape or is
            not finite.
    """
    check_run(run)
    if not isinstance(name, str) or name not in INSIDE:
        raise ValueError(f"name={shortened(name)} must be one of {', '.join(INSIDE)}")
    whole = jnp.zeros_like(recorded(run, name))
    whole = whole[0] if run.is_batch else whole
    place: Any = at
    if name in OF_HEADS:
        place = _head(run, at, "at")
    else:
        check_index("at", place, run.model.n_layers)
    value = _checked("value", value, [whole.shape[1 + (name in OF_HEADS) :]])
    where = _positions(run, positions)
    here = jnp.zeros(whole.shape[:-1], bool).at[place].set(where)
    return replaced(name, whole.at[place].set(value), here, _joined(edit))


OF_HEADS = ("q", "k", "v", "z", "scores")
INSIDE = (*OF_HEADS, "mid", "pre", "pre_linear", "post", "mlp_outputs")


def recorded(run: Run, name: str) -> Float[Array, "..."]:
    """What a run recorded by a name of `INSIDE`, ``streams``, ``patterns`` or ``head_outputs``."""
    value: Array = getattr(run, name)
    return value


def replaced(
    name: str,
    value: Float[Array, "n_layers *heads n_ctx width"],
    here: Bool[Array, "n_layers *heads n_ctx"],
    edit: Interventions,
) -> Interventions:
    """The edit by which ``y <- value`` where it is told, by the name of what is replaced."""
    if name == "patterns":
        return edit._replace(patterns=value, pattern_frozen=here.any(axis=-1))
    keep, put = (~here).astype(value.dtype)[..., None], jnp.where(here[..., None], value, 0)
    if name in ("head_outputs", "mlp_outputs"):
        of_head, keep = name == "head_outputs", keep[..., 0]
        keeps, adds = (edit.head_keep, edit.head_add) if of_head else (edit.mlp_keep, edit.mlp_add)
        # An edit may stand for all positions at once.
        keeps = keep if keeps is None else keeps * keep
        adds = put if adds is None else keep[..., None] * adds + put
        if of_head:
            return edit._replace(head_keep=keeps, head_add=adds)
        return edit._replace(mlp_keep=keeps, mlp_add=adds)
    keeps, adds = getattr(edit.keep, name), getattr(edit.add, name)
    return edit._replace(
        keep=edit.keep._replace(**{name: keep if keeps is None else keep * keeps}),
        add=edit.add._replace(**{name: put if adds is None else keep * adds + put}),
    )


def _head(run: Run, head: Any, name: str = "head") -> tuple[Index, Index]:
    check_run(run)
    if not isinstance(head, Sequence) or isinstance(head, str) or len(head) != 2:
        raise ValueError(f"{name}={head!r} must be a pair (layer, head), both from 0")
    for axis, size in enumerate((run.model.n_layers, run.model.n_heads)):
        check_index(f"{name}[{axis}]", head[axis], size)
    return head[0], head[1]


def _joined(edit: Interventions | None) -> Interventions:
    check_edit("edit", edit)
    return Interventions() if edit is None else edit


def _replaced(
    run: Run, name: str, value: Array, positions: Sequence[int] | None
) -> tuple[Float[Array, " n_ctx"], Float[Array, "n_ctx d_model"]]:
    """The factor kept at each position, and the term added to it."""
    n_ctx, d_model = run.tokens.shape[-1], run.model.d_model
    value = _checked(name, value, [(n_ctx, d_model), (1, d_model)])
    here = _positions(run, positions)
    return (~here).astype(value.dtype), jnp.where(here[:, None], value, 0)


def _positions(run: Run, positions: Sequence[int] | None) -> Bool[Array, " n_ctx"]:
    n_ctx = run.tokens.shape[-1]
    at = jnp.asarray(chosen_of("positions", positions, n_ctx), int)
    return jnp.zeros(n_ctx, bool).at[at].set(True)


def _checked(name: str, value: Array, shapes: list[tuple[int, ...]]) -> Array:
    check_range(name, value, "(-inf, inf)")
    value = jnp.asarray(value)
    if value.shape not in shapes:
        raise ValueError(f"{name} has shape {value.shape}, must be {shapes[0]}")
    return value


def _spread(x: Array, axis: int, n_ctx: int) -> Array:
    """One scalar broadcast to an entry for each position."""
    return jnp.broadcast_to(x, (*x.shape[:axis], n_ctx, *x.shape[axis + 1 :]))
