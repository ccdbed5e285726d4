"""One pair under many independent maps: a sample of the theoretical law.

The pairs under one map share its entries and are dependent, so goodness of fit and failure rates of
a single pair are always taken over maps.
"""

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range
from circuitax.projection.maps import MapSpec, project


def pair_ratios(
    keys: Key[Array, " n_maps"],
    difference: Float[Array, " dim_in"],
    spec: MapSpec,
    *,
    batch: int = 250,
) -> Float[Array, " n_maps"]:
    """``‖f(z)‖² / ‖z‖²`` of one vector ``z = x − y`` under one map for each key."""
    check_range("batch", batch, "[1, inf)")
    if not isinstance(difference, jax.core.Tracer) and not np.asarray(difference).any():
        raise ValueError("difference must not be zero: two equal points have no ratio")
    norm_sq = (difference * difference).sum()

    def one(key: Key[Array, ""]) -> Float[Array, ""]:
        image = project(key, difference, spec)
        return (image * image).sum() / norm_sq

    return jax.lax.map(one, keys, batch_size=batch)
