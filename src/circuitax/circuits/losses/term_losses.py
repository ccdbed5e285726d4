"""Values of the terms of a whole run in nats: losses by order, by layer, and by composition.

`term_losses` keeps the attention patterns of a run, so composition acts through values alone.
`score_losses` rebuilds the patterns of one layer without its Q- or K-composition.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from circuitax.circuits.attention.score_terms import score_sources
from circuitax.circuits.losses.importance import cumulative, selection_losses
from circuitax.circuits.losses.score_importance import (
    composition_selections,
    score_selection_losses,
)
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.circuits.paths.order_terms import layer_subset_streams, order_streams
from circuitax.display.tables import NumberTable, counted
from circuitax.documented import documented
from circuitax.kernel.compiled import compiled
from circuitax.kernel.run import Run
from circuitax.kernel.shown import known, tabled


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
    n_layers = run.model.n_layers
    return TermLosses(
        selection_losses(run, order_streams(model), cumulative(n_layers + 1)),
        selection_losses(
            run, layer_subset_streams(model), jnp.asarray(first_order_selections(n_layers))
        ),
    )


def first_order_selections(n_layers: int) -> Bool[np.ndarray, "selection subset"]:
    """Layer subsets kept in each row of ``TermLosses.first_order``."""
    if n_layers < 0:
        raise ValueError(f"n_layers={n_layers} must not be negative")
    singles = [1 << layer for layer in range(n_layers)]
    rows = [[0], *([0, single] for single in singles), [0, *singles], range(1 << n_layers)]
    return np.array([[subset in row for subset in range(1 << n_layers)] for row in rows])


@compiled("layer")
def score_losses(run: Run, layer: int = 1) -> Float[Array, "n_selections n_losses"]:
    """Losses of a layer that attends with all terms of its scores, and with some left out."""
    return score_selection_losses(run, layer, composition_selections(score_sources(run, layer)))
