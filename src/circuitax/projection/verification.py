"""Theorem 27 and Corollary 28 tested on a cloud: failing maps, and failing pairs.

Both are statements of "Some Structures in Transformer Architectures" (Menon 2025); E10 is a row of
docs/errata.md on the corollary.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from circuitax.projection.distortion import distortion
from circuitax.projection.maps import MapSpec, project
from circuitax.projection.measures import Measure
from circuitax.projection.stream import Stream, summarise
from circuitax.projection.theorem import (
    Bounds,
    cosine_bound,
    cosine_hypothesis,
    inner_product_bound,
)

# Points are arguments of the compiled functions, because XLA would fold the products of a constant.
# Distinct points that a float32 Gram matrix cannot tell apart are refused, not resolved.
_pass = functools.partial(distortion, n_bins=0, near_capacity=0)


class Corollary(NamedTuple):
    """Corollary 28 on every map, at the map's own ε."""

    epsilon: Float[np.ndarray, " n_maps"]  # kept on the unit points and 0
    inner: Int[np.ndarray, " n_maps"]  # pairs past 3ε
    cosine: Int[np.ndarray, " n_maps"]  # pairs past 4ε/(1 − ε)
    inner_share: Float[np.ndarray, " n_maps"]  # worst error over 3ε
    cosine_share: Float[np.ndarray, " n_maps"]


def failing_maps(
    keys: Key[Array, " n_maps"],
    points: Float[Array, "n_points dim_in"],
    spec: MapSpec,
    bounds: tuple[Bounds, ...],
) -> Bool[np.ndarray, "n_maps n_bounds"]:
    """Whether some pair of the cloud leaves each interval, for each map."""
    edges = jnp.array(bounds) - 1

    @jax.jit
    def count(keys: Key[Array, " n_maps"], points: Float[Array, "n d"]) -> Stream:
        return jax.lax.map(lambda k: _pass(points, project(k, points, spec), edges), keys)

    found = summarise(count(keys, points), require_distinct=True)
    return np.asarray(found.below + found.above > 0)


def corollary_28(
    keys: Key[Array, " n_maps"], points: Float[Array, "n_points dim_in"], spec: MapSpec
) -> Corollary:
    """Corollary 28 under its corrected hypothesis (E10), on each map at its own ε."""
    unit = cosine_hypothesis(points)
    none = jnp.zeros((0, 2), points.dtype)

    @jax.jit
    def kept(keys: Key[Array, " n_maps"], unit: Float[Array, "n d"]) -> Stream:
        return jax.lax.map(lambda k: _pass(unit, project(k, unit, spec), none), keys)

    found = summarise(kept(keys, unit), require_distinct=True)
    epsilon = np.maximum(found.high, -found.low)
    limits = np.array([[inner_product_bound(e), cosine_bound(e)] for e in epsilon])

    def beyond(
        points: Float[Array, "n d"], key: Key[Array, ""], measure: Measure, limit: Float[Array, ""]
    ) -> Stream:
        edges = jnp.stack([-limit, limit])[None]
        images = project(key, points, spec)
        return _pass(points, images, edges, measure=measure)

    @jax.jit
    def both(
        keys: Key[Array, " n_maps"],
        limits: Float[Array, "n_maps 2"],
        unit: Float[Array, "n d"],
        points: Float[Array, "n d"],
    ) -> tuple[Stream, Stream]:
        return jax.lax.map(
            lambda at: (
                beyond(unit, at[0], Measure.inner, at[1][0]),
                beyond(points, at[0], Measure.cosine, at[1][1]),
            ),
            (keys, limits),
        )

    bounds = jnp.asarray(limits, points.dtype)
    inner, cosine = map(summarise, both(keys, bounds, unit[1:], points))
    worst = [np.maximum(s.high, -s.low) for s in (inner, cosine)]
    return Corollary(
        epsilon,
        (inner.below + inner.above)[:, 0],
        (cosine.below + cosine.above)[:, 0],
        worst[0] / limits[:, 0],
        worst[1] / limits[:, 1],
    )
