"""Dictionaries of directions: agreement of a learned dictionary with the true one.

Dictionaries have one direction in each row. Every measure takes one dictionary; use ``jax.vmap``
for several.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def cross_cosines(
    truth: Float[Array, "n_true d"], learned: Float[Array, "width d"]
) -> Float[Array, "n_true width"]:
    """Cosine of every true direction with every learned one; 0 where either is zero."""
    return _unit(truth) @ _unit(learned).T


def mean_max_cosine(
    truth: Float[Array, "n_true d"], learned: Float[Array, "width d"]
) -> Float[Array, ""]:
    """The mean over true directions of the best cosine with a learned one; 1 for full recovery.

    Source: Sharkey, Braun and Millidge 2022 (MMCS); SPD, arXiv 2506.20790.
    """
    return jnp.mean(jnp.max(cross_cosines(truth, learned), axis=1))


def hedging(truth: Float[Array, "n_true d"], learned: Float[Array, "width d"]) -> Float[Array, ""]:
    """Hedging: the admixture of other true directions in learned ones; 0 if each is pure.

    Source: Chanin et al. 2025, arXiv 2505.11756 (feature hedging: a dictionary narrower than the
        truth merges correlated features).
    Differs: the paper compares encoder and decoder directions with all true features; this is one
        number, and positive when features are merged with equal signs.
    """
    found = cross_cosines(truth, learned).T
    own = jnp.argmax(found, axis=1)
    between = cross_cosines(truth, truth)[own]
    best = jnp.take_along_axis(found, own[:, None], axis=1)
    other = found - best * between
    return jnp.mean(
        jnp.max(jnp.where(jnp.arange(len(truth))[None] == own[:, None], -1, other), axis=1)
    )


def _unit(rows: Float[Array, "n d"]) -> Float[Array, "n d"]:
    squares = jnp.sum(rows**2, axis=1, keepdims=True)
    return jnp.where(squares > 0, rows / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)
