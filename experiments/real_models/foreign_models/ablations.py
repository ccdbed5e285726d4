"""Cost of replacing one head at a time, on many texts, in one compiled pass."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from circuitax.circuits.patching import Ablation, ablated_metrics
from circuitax.circuits.paths.components import Components
from circuitax.circuits.weights.folding import fold_read, over_heads
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model

BLOCK = 500  # texts that run at once
Score = Callable[[Float[Array, "n_ctx d_vocab"], Any], Float[Array, ""]]


def on_each(of_text: Callable[..., Any], *texts: Any) -> Any:
    """A function of one text, compiled, on many of them; a block at a time where there are many."""
    rows = jax.tree.map(jnp.asarray, texts)
    if len(rows[0]) <= BLOCK:
        return jax.jit(jax.vmap(of_text))(*rows)
    return jax.jit(lambda *all: jax.lax.map(lambda row: of_text(*row), all, batch_size=BLOCK))(
        *rows
    )


def mean_outputs(model: Model, texts: ArrayLike) -> Float[Array, "layer head n_ctx d"]:
    """Mean over the texts of each head's output at each position."""

    def written(text: Array) -> Any:
        return forward(model, text, outputs=True)[1].head_outputs

    return jnp.mean(on_each(written, texts), axis=0)


def value_bias_writes(model: Model, n_ctx: int) -> Float[Array, "layer head n_ctx d"]:
    """``b_V W_O``, the norm's offset in b_V: the constant output of a head whose ``b_V`` is in b_O.

    Rows of a pattern sum to 1, so that a head always writes this. Zero ablation takes it away
    with the rest, unless it was folded into ``b_O`` before.
    """
    heads, blocks = model.blocks.attention, model.blocks
    per_head = over_heads(blocks.attention_norm)
    _, b_V = fold_read(heads.W_V, heads.b_V, model.spec.norm, per_head)
    if b_V is None:
        b_V = jnp.zeros(heads.W_O.shape[:3], heads.W_O.dtype)
    constant = jnp.einsum("lhk,lhkd->lhd", b_V, heads.W_O)
    return jnp.repeat(constant[:, :, None, :], n_ctx, axis=2)


def ablated(
    model: Model,
    texts: ArrayLike,
    labels: Any,
    score: Score,
    replacement: Float[Array, "layer head n_ctx d"] | None = None,
) -> np.ndarray:
    """The mean score with each head replaced in turn, ``[n_layers * n_heads]``.

    Args:
        model: One model.
        texts: Token ids.
        labels: What ``score`` compares the logits of each text with; a row for each text.
        score: Of the logits of one text and its label.
        replacement: What stands in a head's place; None for zeros.
    """
    n = model.n_layers * model.n_heads
    cells = Ablation(jnp.eye(n).reshape(n, model.n_layers, model.n_heads))
    other = None
    if replacement is not None:
        other = Components(replacement[0, 0], None, replacement, None, None)

    def one(text: Array, label: Any) -> Array:
        return ablated_metrics(
            model, text, cells, partial(_scored, score, label), replacement=other
        )

    return np.asarray(on_each(one, texts, labels).mean(axis=0))


def _scored(score: Score, label: Any, logits: Array) -> Array:
    return score(logits, label)
