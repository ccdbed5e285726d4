"""Losses in context: bigram tables, in-context scores, slopes along a text, phase changes.

Values of the terms of a whole run in nats: losses by order, by layer, and by composition.

Codes such as S0 and E4: docs/bibliography.md and docs/errata.md.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from circuitax.circuits.paths.components import logits_of, read_out_of
from circuitax.circuits.paths.expansion import layer_subset_streams, order_streams
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.score_terms import (
    composition_selections,
    score_selection_losses,
    score_sources,
)
from circuitax.display.tables import NumberTable, counted, documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.linalg import at_least_single, safe_divide
from circuitax.kernel.model import Model, check_next_tokens
from circuitax.kernel.run import Run
from circuitax.kernel.shown import known, tabled


def bigram_log_probs(model: Model) -> Float[Array, "d_vocab d_vocab"]:
    """Predictions of a zero-layer model after each token: row a is ``log P(. | a)``.

    Source: S0 Remark 21.
    """
    every = jnp.arange(model.d_vocab)
    return jax.nn.log_softmax(at_least_single(forward(model, every)[0]), axis=-1)


def direct_path_log_probs(model: Model) -> Float[Array, "d_vocab d_vocab"]:
    """Predictions of the direct path alone, for any attention-only model without norm.

    Source: S0 Theorem 25; framework paper, "The Path Expansion Trick".
    """
    logits = model.W_E @ model.W_U
    if model.b_U is not None:
        logits = logits + model.b_U[None, :]
    return jax.nn.log_softmax(at_least_single(logits), axis=-1)


def in_context_score(
    losses: Float[Array, "*batch n_losses"], early: int = 50, late: int = 500
) -> Float[Array, "*batch"]:
    """Loss at a late position minus loss at an early one, in nats; negative where context helps.

    Source: induction-heads paper, "in-context learning score" (500th and 50th token).
    Differs: the paper's text quotes the magnitude; this is the signed difference.
    """
    return losses[..., late - 1] - losses[..., early - 1]


def repeated_pairs(tokens: Int[Array, "*batch n_ctx"]) -> Bool[Array, "*batch n_ctx-1"]:
    """Mask of positions whose pair ``(x_t, x_{t+1})`` occurred earlier in the text."""
    present, coming = tokens[..., :-1], tokens[..., 1:]
    same = (present[..., :, None] == present[..., None, :]) & (
        coming[..., :, None] == coming[..., None, :]
    )
    return jnp.tril(same, k=-1).any(axis=-1)


def loss_slope(
    losses: Float[Array, "*batch n_losses"], span: float = 2.0
) -> Float[Array, "*batch n_losses"]:
    """``d loss / d ln(index)`` at every index, nats; negative where longer contexts help.

    Source: induction-heads paper, "derivative of loss with respect to log(token index)".
    Differs: the paper states no smoothing.
    """
    n = losses.shape[-1]
    return losses @ jnp.asarray(_lines(n, span), losses.dtype).T


def _lines(n: int, span: float) -> np.ndarray:
    """Row i holds the weights of the losses in the slope at index i + 1."""
    index = np.arange(n)
    x = np.log(index + 1.0)
    near = np.abs(x[:, None] - x[None, :]) <= math.log(span) / 2
    near |= np.abs(index[:, None] - index[None, :]) <= 1
    middle = (near * x[None, :]).sum(1) / near.sum(1)
    offset = near * (x[None, :] - middle[:, None])
    lines: np.ndarray = offset / (offset**2).sum(1, keepdims=True)
    return lines


class Window(NamedTuple):
    """Steps at which a tenth, half and nine tenths of a curve's whole change are reached."""

    start: Float[Array, "*batch"]
    middle: Float[Array, "*batch"]
    end: Float[Array, "*batch"]


def progress(curve: Float[Array, "*batch step"]) -> Float[Array, "*batch step"]:
    """``(c_t - c_first) / (c_last - c_first)``; 0 throughout where nothing changed."""
    first, last = curve[..., :1], curve[..., -1:]
    return safe_divide(curve - first, jnp.broadcast_to(last - first, curve.shape))


def reached(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], share: float
) -> Float[Array, "*batch"]:
    """The first step, by linear interpolation, at which a given share of the change is complete."""
    done = progress(curve)
    t = steps.astype(curve.dtype)
    after = done >= share
    # The first measurement is at progress 0, so an index of 0 means never.
    i = jnp.argmax(after, axis=-1)
    i = jnp.where(after.any(axis=-1), i, steps.shape[0] - 1)
    high = jnp.take_along_axis(done, i[..., None], axis=-1)[..., 0]
    low = jnp.take_along_axis(done, i[..., None] - 1, axis=-1)[..., 0]
    part = jnp.clip(safe_divide(share - low, high - low), 0, 1)
    return jnp.where(after.any(axis=-1), t[i - 1] + part * (t[i] - t[i - 1]), t[-1])


def change_window(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], margin: float = 0.1
) -> Window:
    """Start, middle and end of a curve's change.

    Source: induction-heads paper marks its windows by eye; this is a rule.
    """
    return Window(*(reached(steps, curve, share) for share in (margin, 0.5, 1 - margin)))


class Stretch(NamedTuple):
    """An interval of training steps of a given width: its start, and the curve's fall in it."""

    start: Float[Array, "*batch"]
    fall: Float[Array, "*batch"]


def steepest_stretch(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], width: float
) -> Stretch:
    """The interval of ``width`` steps with the largest fall of a curve; negative if it only rises.

    Source: induction-heads paper, "the phase change ... in a narrow window", which it marks by eye.
    """
    start, falls = _falls(steps, curve, width)
    return Stretch(start[jnp.argmax(falls, axis=-1)], jnp.max(falls, axis=-1))


def _falls(
    steps: Num[Array, " n_steps"], curve: Float[Array, "*batch step"], width: float
) -> tuple[Float[Array, " n_steps"], Float[Array, "*batch step"]]:
    """Starts of intervals, and falls in them; intervals past the end repeat the last one."""
    t = steps.astype(curve.dtype)
    start = jnp.minimum(t, t[-1] - width)
    flat = curve.reshape(-1, t.shape[0])
    falls = jax.vmap(lambda c: jnp.interp(start, t, c) - jnp.interp(start + width, t, c))(flat)
    return start, falls.reshape(curve.shape)


def selection_losses(
    run: Run,
    streams: Float[Array, "n_terms n_ctx d_model"],
    selections: Bool[Array, "n_selections n_terms"] | Float[Array, "n_selections n_terms"],
) -> Float[Array, "n_selections n_losses"]:
    """Next-token losses in nats with only some terms at the unembedding, ``b_U`` included."""
    read_out, tokens = read_out_of(run), run.tokens

    def one(selection: Array) -> Array:
        weights = selection.astype(streams.dtype)
        logits = logits_of(jnp.einsum("p,ptd->td", weights, streams), read_out)
        if read_out.b_U is not None:
            logits = logits + read_out.b_U[None, :]
        return next_token_losses(logits, tokens)

    # one selection at a time: [n_selections, n_ctx, d_vocab] would be the largest array by far
    return jax.lax.map(one, selections)


def cumulative(n_terms: int) -> Bool[Array, "n_terms n_terms"]:
    """Selections that take the first term, the first two, and so on: for marginals in order."""
    return jnp.tril(jnp.ones((n_terms, n_terms), bool))


def marginals(
    cumulative_losses: Float[Array, "n_terms *rest"], empty_loss: Float[Array, "*rest"]
) -> Float[Array, "n_terms *rest"]:
    """Decrease of the loss as each term joins those before it; positive is useful."""
    before = jnp.concatenate([empty_loss[None], cumulative_losses[:-1]])
    return before - cumulative_losses


def shapley(values: Float[Array, "subset *rest"]) -> Float[Array, "n_players *rest"]:
    """``φ_l = Σ_{T ∌ l} |T|! (L - |T| - 1)! / L! (v(T ∪ l) - v(T))``, exact over all subsets."""
    count = values.shape[0]
    n_players = count.bit_length() - 1
    sizes = np.array([mask.bit_count() for mask in range(count)])
    share = [0.0] * count
    for mask, size in enumerate(sizes):
        if size < n_players:
            below, above = math.factorial(size), math.factorial(n_players - size - 1)
            share[mask] = below * above / math.factorial(n_players)
    phi = []
    for player in range(n_players):
        without = np.array([mask for mask in range(count) if not mask >> player & 1])
        weights = jnp.asarray(np.array(share)[without], values.dtype)
        gains = values[without | (1 << player)] - values[without]
        phi.append(jnp.tensordot(weights, gains, axes=1))
    return jnp.stack(phi) if phi else jnp.zeros((0, *values.shape[1:]), values.dtype)


@tabled
@documented
class TermLosses(NamedTuple):
    """Next-token losses in nats with only some terms at the unembedding, patterns frozen.

    Attributes:
        order: Row k: all paths through at most k heads. The last row is the loss of the model.
        first_order: Rows as in `first_order_selections`.
    """

    order: Float[Array, "order n_losses"]
    first_order: Float[Array, "selection n_losses"]

    def _table(self) -> NumberTable | None:
        if np.ndim(self.order) != 2 or not known(*self):
            return None
        means = np.asarray(self.order).mean(axis=1)
        rows = [(f"up to {counted(k, 'head')}", [loss]) for k, loss in enumerate(means)]
        return NumberTable("TermLosses, means over positions", ("nats",), rows)


@compiled()
def term_losses(run: Run) -> TermLosses:
    """Losses of the terms of the path expansion, by order and by the layers of the first order.

    Args:
        run: A run on one text of a model of at most 8 layers, made with ``outputs=True`` if it has
            MLPs. Their gates are frozen and their constants count to order 0.

    Raises:
        ValueError: If the run is of several texts, what MLPs wrote was not recorded, or the model
            has more than 8 layers.

    Source: framework paper, "term importance analysis".
    """
    model = frozen_model(run)
    check_next_tokens(run.model)
    n_layers = run.model.n_layers
    return TermLosses(
        selection_losses(run, order_streams(model), cumulative(n_layers + 1)),
        selection_losses(
            run, layer_subset_streams(model), jnp.asarray(first_order_selections(n_layers))
        ),
    )


def first_order_selections(n_layers: int) -> Bool[np.ndarray, "selection subset"]:
    """Layer subsets kept in each row of ``TermLosses.first_order``."""
    singles = [1 << layer for layer in range(n_layers)]
    rows = [[0], *([0, single] for single in singles), [0, *singles], range(1 << n_layers)]
    return np.array([[subset in row for subset in range(1 << n_layers)] for row in rows])


@compiled("layer")
def score_losses(run: Run, layer: int = 1) -> Float[Array, "n_selections n_losses"]:
    """Losses of a layer that attends with all terms of its scores, and with some left out."""
    return score_selection_losses(run, layer, composition_selections(score_sources(run, layer)))
