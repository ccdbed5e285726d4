"""Agreement of learned dictionaries and rank-one subcomponents with the true ones.

Dictionaries have one direction in each row. Every measure takes one dictionary; use ``jax.vmap``
for several.

A map ``W [d_in, d_out]`` in row form takes feature i to the row W_i. Its true subcomponents are
``e_i ⊗ W_i``. A learned one is ``V_c ⊗ U_c``: it reads along V_c and writes along U_c. For a map
whose outputs are the features (a decoder), swap the two and transpose W.
"""

from typing import NamedTuple

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


class RowMatch(NamedTuple):
    """For every true row, scores of its best subcomponent.

    Attributes:
        norm_ratio: Norm of the subcomponent's row over that of the true row.
    """

    cosine: Float[Array, " d_in"]
    norm_ratio: Float[Array, " d_in"]


def row_match(
    truth: Float[Array, "d_in d_out"],
    V: Float[Array, "n_components d_in"],
    U: Float[Array, "n_components d_out"],
) -> RowMatch:
    """Each true row W_i against row i of every subcomponent, ``V_ci U_c``: the papers' scores.

    Source: Braun et al. 2025 (APD), arXiv 2501.14926; SPD, arXiv 2506.20790.
    """
    signed = jnp.sign(V).T * cross_cosines(truth, U)
    best = jnp.argmax(signed, axis=1)
    rows = jnp.arange(truth.shape[0])
    size = jnp.abs(V[best, rows]) * jnp.linalg.norm(U[best], axis=1)
    return RowMatch(signed[rows, best], size / jnp.linalg.norm(truth, axis=1))


def rank_one_cosines(
    truth: Float[Array, "d_in d_out"],
    V: Float[Array, "n_components d_in"],
    U: Float[Array, "n_components d_out"],
) -> Float[Array, "d_in n_components"]:
    """Cosine between each true subcomponent ``e_i ⊗ W_i`` and each learned one, as matrices."""
    reads = cross_cosines(jnp.eye(truth.shape[0], dtype=V.dtype), V)
    return reads * cross_cosines(truth, U)


def one_to_one(important: Float[Array, "n_inputs n_components"]) -> Float[Array, ""]:
    """Share of inputs that turn on exactly one subcomponent, shared with no other input.

    Source: SPD, arXiv 2506.20790, figures of causal importances with one active feature each.
    """
    alone = jnp.sum(important, axis=1) == 1
    private = jnp.sum(important, axis=0) == 1
    return jnp.mean(alone & jnp.any((important > 0) & private[None], axis=1))
