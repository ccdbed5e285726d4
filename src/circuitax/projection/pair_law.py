"""One pair under many independent maps: the sample whose law the theory gives.

Pairs within one map share its entries and are dependent, so goodness of fit and failure rates of a
single pair are always taken over maps.
"""

import jax
from jaxtyping import Array, Float, Key

from circuitax.projection.maps import MapSpec, project


def pair_ratios(
    keys: Key[Array, " n_maps"],
    difference: Float[Array, " dim_in"],
    spec: MapSpec,
    *,
    batch: int = 250,
) -> Float[Array, " n_maps"]:
    """``‖f(z)‖² / ‖z‖²`` of one vector ``z = x − y`` under one map for each key.

    Args:
        keys: One for each map.
        difference: z, not zero.
        spec: Family and size.
        batch: Maps drawn at a time; one that divides their number compiles once, not twice.
    """
    norm_sq = (difference * difference).sum()

    def one(key: Key[Array, ""]) -> Float[Array, ""]:
        image = project(key, difference, spec)
        return (image * image).sum() / norm_sq

    return jax.lax.map(one, keys, batch_size=batch)


def pair_products(
    keys: Key[Array, " n_maps"],
    x: Float[Array, " dim_in"],
    y: Float[Array, " dim_in"],
    spec: MapSpec,
    *,
    batch: int = 250,
) -> Float[Array, "n_maps 3"]:
    """``(‖f(x)‖², ‖f(y)‖², ⟨f(x), f(y)⟩)`` of one pair under one map for each key."""
    pair = jax.numpy.stack([x, y])

    def one(key: Key[Array, ""]) -> Float[Array, "3"]:
        u, v = project(key, pair, spec)
        return jax.numpy.stack([(u * u).sum(), (v * v).sum(), (u * v).sum()])

    return jax.lax.map(one, keys, batch_size=batch)
