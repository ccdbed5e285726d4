"""Match between rank-one subcomponents of a map and the true ones, one for each input feature.

A map ``W [d_in, d_out]`` in row form takes feature i to the row W_i. Its true subcomponents are
``e_i ⊗ W_i``. A learned one is ``V_c ⊗ U_c``: it reads along V_c and writes along U_c. For a map
whose outputs are the features (a decoder), swap the two and transpose W.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.superposition.geometry.dictionary import cross_cosines


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
