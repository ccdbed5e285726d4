"""The smallest m that keeps all pairs, against log N and ε, with its constant and its sharpness."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from circuitax.kernel.keys import derive, member_keys
from circuitax.kit.checks import (
    require_at_least,
    require_divides,
    require_in,
    require_increasing,
)
from circuitax.kit.memory import require_arrays, require_memory
from circuitax.lab.lab import Lab
from circuitax.projection.laws import median_threshold
from circuitax.projection.maps import EntryLaw
from circuitax.projection.tails import (
    Tail,
    dasgupta_gupta_dim,
    first_dim,
    jl_dimension,
    proof_constant,
    smallest_dim,
    statement_constant,
    succeeds,
)
from circuitax.records.record import Record
from experiments.directions.shared.by_dimension import extremes_by_dimension, orthonormal_features

MEDIAN, SAFE = 0.5, 0.1
DELTAS = (MEDIAN, SAFE, 1 - SAFE)  # δ: the share of maps that may fail


@dataclass(frozen=True)
class Spec:
    """The grid of the thresholds; points are orthonormal (one-hot features), so n = N.

    Attributes:
        n_points: N, increasing, at least two values of at least 8.
        epsilon: ε, increasing, at least two values in (0, 1).
        max_dim: Largest m tried, a multiple of ``step``; must exceed the hardest threshold.
        step: Resolution in m, at least 1.
        n_maps: Independent maps for every N, at least 10.
        n_resamples: Bootstrap resamples of the maps for fitted numbers, at least 10.
    """

    n_points: tuple[int, ...] = (32, 100, 316, 1000)
    epsilon: tuple[float, ...] = (0.3, 0.35, 0.4, 0.5, 0.6)
    max_dim: int = 800
    step: int = 4
    n_maps: int = 40
    n_resamples: int = 400

    def __post_init__(self) -> None:
        require_increasing(self, "n_points", "epsilon")
        require_at_least(self, 8, "n_points")
        require_in(self, "(0, 1)", "epsilon")
        require_at_least(self, 1, "max_dim")
        require_divides(self, "step", "max_dim")
        require_at_least(self, 10, "n_maps", "n_resamples")
        cells = len(self.n_points) * len(self.epsilon)
        require_memory(self, self.n_maps * cells * self.max_dim // self.step, "n_maps", "max_dim")
        require_arrays(self, "n_points max_dim")


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
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
    data = xr.Dataset(
        {
            "success": ((*cells, "dim_out"), success.mean(2)),
            "threshold": (("delta", "end", *cells), _thresholds(success, dims)),
            "resampled": (("resample", "delta", *cells), _resampled(spec, success, dims, rng)),
            "predicted": (cells, table(median_threshold)),
            "dasgupta_gupta": (cells, table(dasgupta_gupta_dim)),
            "proof": (cells, table(lambda n, e: proof_constant(e) * np.log(n) / e**2)),
            "union": (cells, table(lambda n, e: jl_dimension(n, e, SAFE, tail=Tail.exact))),
            "statement": (cells, table(lambda n, e: statement_constant(e) * np.log(n) / e**2)),
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
    return Record(data=data)


def _extremes(spec: Spec, n_points: int, key: jax.Array) -> jax.Array:
    """Least and greatest distortion [2, map, m] of Gaussian maps on orthonormal points."""

    @jax.jit
    def every_map(keys: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            features = orthonormal_features(key, EntryLaw.gaussian, n_points, spec.max_dim)
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
