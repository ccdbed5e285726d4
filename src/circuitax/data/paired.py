"""Sparse features in pairs, with a chosen rate of joint occurrence."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.checks import check_range


def paired_features(
    pair: Float[Array, "batch n_pairs"],
    value: Float[Array, "batch n_features"],
    density: float | Float[Array, ""],
    together: float | Float[Array, ""],
) -> Float[Array, "batch n_features"]:
    """Features 2s and 2s + 1 form pair s: each is on with probability p, depending on the other.

    ``P(both) = p * together``; so ``together`` is 0 for features that exclude each other, p for
    independent ones, and 1 for features that are always on together. Values are uniform on [0, 1).

    Source: the distribution of two correlated features in Chanin et al. 2025, arXiv 2505.11756.
    """
    check_range("density", density, "[0, 1]")
    check_range("together", together, "[0, 1]")
    both, one, other = density * together, density, density * (2 - together)
    first = pair < one
    second = (pair < both) | ((pair >= one) & (pair < other))
    on = jnp.stack([first, second], axis=2).reshape(pair.shape[0], -1)
    return jnp.where(on[:, : value.shape[1]], value, 0)
