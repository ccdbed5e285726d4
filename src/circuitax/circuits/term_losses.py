"""Values of the terms of a whole run in nats: losses by order, by layer, and by composition."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from circuitax.circuits.paths.components import logits_of, read_out_of
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.orders import layer_subset_streams, order_streams
from circuitax.circuits.score_terms import (
    composition_selections,
    score_selection_losses,
    score_sources,
)
from circuitax.display.tables import NumberTable, counted
from circuitax.documented import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.model import check_next_tokens
from circuitax.kernel.run import Run
from circuitax.kernel.shown import known, tabled


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
