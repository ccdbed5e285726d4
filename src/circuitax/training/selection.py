"""The best of N restarts, by a rule recorded with the result."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

RULE = (
    "lowest loss of the restarts that stayed finite; ties go to the lower index; a cell without "
    "a finite restart has number -1 and loss NaN"
)


class Best(NamedTuple):
    """The best restart of every cell, and the number of restarts."""

    restart: Int[Array, "*cell"]
    loss: Float[Array, "*cell"]
    n_alive: Int[Array, "*cell"]


def best_of(losses: Float[Array, "*cell restart"], alive: Bool[Array, "*cell restart"]) -> Best:
    """The best restart of each cell under `RULE`.

    Source: toy-models paper, "1000 models ... lowest loss shown"; Henighan et al. 2023.
    Differs: the paper's phase diagram averages all but the worst of ten.
    """
    if losses.shape[-1] < 1:
        raise ValueError("losses has no restart on its last axis, must have at least 1")
    fit = alive & jnp.isfinite(losses)
    masked = jnp.where(fit, losses, jnp.inf)
    n_alive = jnp.sum(fit, axis=-1)
    restart = jnp.where(n_alive > 0, jnp.argmin(masked, axis=-1), -1)
    loss = jnp.where(n_alive > 0, jnp.min(masked, axis=-1), jnp.nan)
    return Best(restart, loss, n_alive)


def take(tree: PyTree, restart: Int[Array, "*cell"]) -> PyTree:
    """The selected restart of each leaf ``[*cell, restart, ...]``; NaN where it is -1."""

    def pick(leaf: Array) -> Array:
        at = restart.reshape(*restart.shape, *[1] * (leaf.ndim - restart.ndim))
        chosen = jnp.take_along_axis(leaf, jnp.maximum(at, 0), axis=restart.ndim)
        return jnp.squeeze(jnp.where(at >= 0, chosen, jnp.nan), axis=restart.ndim)

    return jax.tree.map(pick, tree)


def as_cells(tree: PyTree, *cell: int) -> PyTree:
    """Split the leading axis of members into cells and restarts, row-major: restarts vary fastest.
    """
    n_members, n_cells = jax.tree.leaves(tree)[0].shape[0], 1
    for size in cell:
        n_cells *= size
    if n_cells < 1 or n_members % n_cells:
        raise ValueError(f"cell={cell} must divide the number of members, {n_members}")
    return jax.tree.map(lambda leaf: leaf.reshape(*cell, -1, *leaf.shape[1:]), tree)


def divergence(alive: Bool[Array, " member"], step: Int[Array, " member"]) -> dict[str, Any]:
    """Diverged members for the notes of a record: their number out of all, indices, and steps."""
    dead = [i for i, ok in enumerate(alive.tolist()) if not ok]
    at = {str(i): int(step[i]) for i in dead}
    return {"members": int(alive.shape[0]), "diverged": len(dead), "after_steps": at}
