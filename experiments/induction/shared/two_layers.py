"""Common code of experiments on two-layer models: their texts, and the axes of their results."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key

from circuitax.circuits.weights.composition import KINDS
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.spec import TransformerSpec

HEADS = ("member", "layer", "head")
PAIRS = ("member", "kind", "writer", "reader")
AXES: dict[str, tuple[str, ...]] = {
    "composition_z": PAIRS,
    "copying": HEADS,
    "matching": ("member", "writer", "reader"),
    "order_loss": ("member", "order"),
    "first_order_loss": ("member", "selection"),
    "score_loss": ("member", "score_selection"),
    "ablated_preserving": HEADS,
    "attention": (*HEADS, "offset"),
    "positional": ("member", "head"),
    "stripes": HEADS,
    "top_is_match": HEADS,
    "raises": HEADS,
    "prefix": HEADS,
    "previous": HEADS,
    "identity": ("member",),
}


def require_readable(model: TransformerSpec, task: RepeatedSource) -> None:
    """Refuse texts that a model cannot read, or of which distinct symbols cannot be drawn."""
    longest = task.length if model.n_ctx is None else model.n_ctx
    if model.d_vocab != task.d_vocab or task.length > longest or model.start_token is not None:
        raise ValueError(
            f"task.d_vocab={task.d_vocab} must be model.d_vocab={model.d_vocab}, task.length="
            f"{task.length} at most model.n_ctx={model.n_ctx}, and model.start_token null"
        )
    replace(task, distinct=True)


def in_context(task: RepeatedSource, losses: Float[Array, "*batch position"]) -> Array:
    """In-context score, ``[*batch]``: late losses minus early ones.

    Before position ``min_period - 1`` no token can be known, from ``max_period`` on all can.
    """
    early, late = losses[..., : task.min_period - 1], losses[..., task.max_period :]
    return late.mean(axis=-1) - early.mean(axis=-1)


def n_ctx_for(model: TransformerSpec, offsets: int) -> int:
    """The context of models whose attention is to be tabled at so many distances."""
    n_ctx = model.n_ctx or 0
    if offsets > n_ctx // 2:
        raise ValueError(f"offsets={offsets} must be at most half of n_ctx={n_ctx}")
    return n_ctx


def repeated_texts(
    key: Key[Array, ""], n_texts: int, model: TransformerSpec
) -> Int[Array, "n_texts n_ctx"]:
    """Random distinct tokens, repeated with periods from a quarter to a half of the context."""
    n_ctx = model.n_ctx or 0
    source = RepeatedSource(
        n_texts,
        n_ctx,
        model.d_vocab,
        min_period=n_ctx // 4,
        max_period=n_ctx // 2,
        distinct=True,
    )
    return source(key)


def circuit_data(
    before: Mapping[str, np.ndarray],
    after: Mapping[str, np.ndarray],
    runs: Mapping[str, np.ndarray],
) -> xr.Dataset:
    """`weight_readings` before training, as ``<name>_at_init``, and after; and readings of runs."""
    arrays = {name: (AXES[name], values) for name, values in {**after, **runs}.items()}
    arrays |= {f"{name}_at_init": (AXES[name], values) for name, values in before.items()}
    return xr.Dataset(arrays, coords={"kind": list(KINDS)})
