"""The smallest m that keeps all pairs, against log N and ε, with its constant and its sharpness."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive, member_keys
from circuitax.lab.lab import Lab
from circuitax.projection.laws import (
    Tail,
    dasgupta_gupta_dim,
    first_dim,
    jl_dimension,
    median_threshold,
    proof_constant,
    smallest_dim,
    succeeds,
)
from circuitax.projection.maps import EntryLaw, draw_columns
from experiments.directions.shared.by_dimension import extremes_by_dimension

MEDIAN, SAFE = 0.5, 0.1
DELTAS = (MEDIAN, SAFE, 1 - SAFE)  # δ: the share of maps that may fail


@dataclass(frozen=True)
class Spec:
    """The grid of the thresholds; points are orthonormal (one-hot features), so n = N.

    Attributes:
        n_points: N.
        epsilon: ε.
        max_dim: Largest m tried; must exceed the hardest threshold.
        step: Resolution in m.
        n_maps: Independent maps for every N.
        n_resamples: Bootstrap resamples of the maps for fitted numbers.
    """

    n_points: Annotated[tuple[int, ...], "[8, inf)", "increasing"] = (32, 100, 316, 1000)
    epsilon: Annotated[tuple[float, ...], "(0, 1)", "increasing"] = (0.3, 0.35, 0.4, 0.5, 0.6)
    max_dim: Annotated[int, "[1, inf)"] = 800
    step: Annotated[int, "divides max_dim"] = 4
    n_maps: Annotated[int, "[10, inf)"] = 40
    n_resamples: Annotated[int, "[10, inf)"] = 400


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Success of every map at every m; thresholds, also of maps drawn again, and the theory."""
    dims = np.arange(spec.step, spec.max_dim + 1, spec.step)
    extremes = np.stack(
        [
            lab.stage(f"points-{n}", _extremes, spec, n, derive(key, f"points {n}"))
            for n in spec.n_points
        ]
    )
    success = np.stack([succeeds(extremes[:, 0], extremes[:, 1], e) for e in spec.epsilon])
    rng = np.random.default_rng(int(jax.random.bits(derive(key, "bootstrap"), dtype=jnp.uint32)))

    def table(rule: Callable[[int, float], float]) -> np.ndarray:
        return np.array([[rule(n, e) for n in spec.n_points] for e in spec.epsilon], float)

    cells = ("epsilon", "n_points")
    return xr.Dataset(
        {
            "threshold": (("delta", "end", *cells), _thresholds(success, dims)),
            "resampled": (("resample", "delta", *cells), _resampled(spec, success, dims, rng)),
            "predicted": (cells, table(median_threshold)),
            "dasgupta_gupta": (cells, table(dasgupta_gupta_dim)),
            "proof": (cells, table(lambda n, e: proof_constant(e) * np.log(n) / e**2)),
            "union": (cells, table(lambda n, e: jl_dimension(n, e, SAFE, tail=Tail.exact))),
        },
        coords={
            "epsilon": list(spec.epsilon),
            "n_points": list(spec.n_points),
            "dim_out": dims,
            "delta": list(DELTAS),
            "end": ["dim", "low", "high"],
        },
        attrs={"n_maps": spec.n_maps},
    )


def _extremes(spec: Spec, n_points: int, key: jax.Array) -> jax.Array:
    """Least and greatest distortion [2, map, m] of Gaussian maps on orthonormal points."""

    @jax.jit
    def every_map(keys: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            # Of one-hot points the features are the entries of the map itself.
            rows = member_keys(key, spec.max_dim)
            features = draw_columns(rows, EntryLaw.gaussian, n_points)
            found = extremes_by_dimension(features, step=spec.step)
            return jnp.stack([found.low, found.high])

        return jnp.moveaxis(jax.lax.map(one, keys), 1, 0)

    return every_map(member_keys(key, spec.n_maps))


def _thresholds(success: np.ndarray, dims: np.ndarray) -> np.ndarray:
    """Thresholds and the ends of their intervals, [δ, end, ε, N], from success [ε, N, map, m]."""
    found = [
        [[smallest_dim(maps, dims, delta) for maps in row] for row in success] for delta in DELTAS
    ]
    return np.moveaxis(np.array(found), 3, 1)


def _resampled(
    spec: Spec, success: np.ndarray, dims: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Thresholds [resample, δ, ε, N] of maps drawn with replacement, for a bootstrap."""
    draws = []
    for _ in range(spec.n_resamples):
        # Maps of different N are independent; within an N all ε and m share the resample.
        pick = rng.integers(spec.n_maps, size=(len(spec.n_points), spec.n_maps))
        rate = np.stack([success[:, k, pick[k]].mean(1) for k in range(len(pick))], 1)
        draws.append([first_dim(rate, dims, delta) for delta in DELTAS])
    return np.array(draws)
