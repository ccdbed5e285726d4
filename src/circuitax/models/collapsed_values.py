"""Conversion between a single value matrix, as S1 writes it, and the usual pair (W_V, W_O).

S1 is the linear-algebra post (docs/bibliography.md). E31 is an erratum of the sources
(docs/errata.md).
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def collapse_values(
    W_V: Float[Array, "*batch d_model d_value"], W_O: Float[Array, "*batch d_value d_model"]
) -> Float[Array, "*batch d_model d_model"]:
    """The single map of the stream that S1 calls ``W_V``: ``W_V @ W_O``, of rank d_value at most.

    Source: S1 section 4, "What really happens with W_V".
    """
    return W_V @ W_O


def factor_values(
    collapsed: Float[Array, "*batch d_model d_model"],
    d_value: int,
    tolerance: float = 1e-5,
) -> tuple[Float[Array, "*batch d_model d_value"], Float[Array, "*batch d_value d_model"]]:
    """The pair ``(W_V, W_O)`` with ``W_V @ W_O = collapsed``, balanced; d_value bounds the rank.

    ``W_V = U sqrt(S)``, ``W_O = sqrt(S) V^T`` from the singular values. The pair is unique up to an
    invertible map between the two. The function reads singular values on the host, so it does not
    run under jit.

    Source: S1 section 4.
    Differs: S1 calls the collapsed form mathematically equivalent; it is more general, since only
        matrices of rank d_value or less come from a pair (E31).
    """
    d_model = collapsed.shape[-1]
    if not 1 <= d_value <= d_model:
        raise ValueError(f"d_value={d_value} must lie in [1, d_model={d_model}]")
    U, S, Vt = jnp.linalg.svd(collapsed, full_matrices=False)
    values = np.asarray(S)
    rank = int((values > tolerance * values[..., :1]).sum(axis=-1).max())
    if rank > d_value:
        raise ValueError(f"d_value={d_value} must be at least the rank of collapsed, {rank}")
    root = jnp.sqrt(S[..., :d_value])
    return U[..., :d_value] * root[..., None, :], root[..., :, None] * Vt[..., :d_value, :]
