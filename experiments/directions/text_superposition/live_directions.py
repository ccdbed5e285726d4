"""Overlaps and dimensionality of the live directions of a dictionary.

How many are in use differs between dictionaries of one shape, so that a mask marks them: one
compilation serves all. Every measure takes one dictionary; use ``jax.vmap`` for several.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from circuitax.projection.coherence import unit_rows
from circuitax.superposition.features import dimensionality_of_rows


class LiveOverlaps(NamedTuple):
    """Over pairs of distinct live rows, after normalisation.

    Attributes:
        mean: Of ``⟨u, v⟩``.
        mean_square: Of ``⟨u, v⟩²``: 1/d for random directions, the square of the Welch bound at
            least.
        largest: Of ``|⟨u, v⟩|``.
        above: Share of pairs with ``|⟨u, v⟩|`` above each threshold.
    """

    mean: Float[Array, ""]
    mean_square: Float[Array, ""]
    largest: Float[Array, ""]
    above: Float[Array, " threshold"]


def centred_live(rows: Float[Array, "n d"], live: Bool[Array, " n"]) -> Float[Array, "n d"]:
    """Live rows with their mean taken off; the others become 0."""
    kept = live[:, None]
    mean = jnp.sum(jnp.where(kept, rows, 0), axis=0) / jnp.maximum(jnp.sum(live), 1)
    return jnp.where(kept, rows - mean[None], 0)


def live_overlaps(
    rows: Float[Array, "n d"], live: Bool[Array, " n"], thresholds: Float[Array, " threshold"]
) -> LiveOverlaps:
    """Overlaps of the live rows; not a number if fewer than two are live.

    Args:
        rows: Few enough for a table of pairs, 4,096 or so.
        live: Which count.
        thresholds: Not negative.
    """
    unit = unit_rows(rows)
    g = jnp.matmul(unit, unit.T, precision="highest")
    pair = live[:, None] & live[None, :] & ~jnp.eye(len(rows), dtype=bool)
    n_pairs = jnp.sum(pair)
    share = jnp.where(n_pairs > 0, 1 / jnp.maximum(n_pairs, 1), jnp.nan)
    size = jnp.where(pair, jnp.abs(g), 0)
    above = jax.lax.map(lambda bound: jnp.sum(pair & (size > bound)), thresholds)
    return LiveOverlaps(
        jnp.sum(jnp.where(pair, g, 0)) * share,
        jnp.sum(size**2) * share,
        jnp.max(size) * share * n_pairs,
        above * share,
    )


def live_dimensionality(rows: Float[Array, "n d"], live: Bool[Array, " n"]) -> Float[Array, " n"]:
    """``D_i`` among the live rows alone, as of `many_features`; not a number for the others."""
    found = dimensionality_of_rows(jnp.where(live[:, None], rows, 0))
    return jnp.where(live, found, jnp.nan)
