"""Distortion over all five thousand million pairs of 100,000 points in 10,000 dimensions, once.

    python -m experiments.benchmark --only jl_large

takes a quarter of an hour and some 12 GB. No peer holds a table of that many distances.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from functools import cache

import jax
import jax.numpy as jnp

from circuitax.projection.distortion import distortion
from circuitax.projection.maps import MapFamily, MapSpec, project
from circuitax.projection.stream import summarise
from experiments.benchmarks.case import Case
from experiments.benchmarks.memory import jax_alone_mb, peak_mb

WHEN_NAMED = True
N_POINTS, DIM_IN, DIM_OUT = 100_000, 10_000, 400
SIZE = f"N={N_POINTS}, {DIM_IN} → {DIM_OUT}"
FLOPS = N_POINTS**2 * float(DIM_IN + DIM_OUT) + 2.0 * N_POINTS * DIM_IN * DIM_OUT


def cases(stack: ExitStack) -> list[Case]:
    """Time and memory of one process that does it all."""
    points_mb = 4 * N_POINTS * DIM_IN / 2**20
    return [
        Case(
            name=f"JL distortion, all pairs, {SIZE}",
            unit="s",
            ours=lambda: _measured()[0],
            flops=FLOPS,
            moved=4.0 * N_POINTS * DIM_IN,
            draws=N_POINTS * DIM_IN,
            once=True,
            note="points drawn, projected and compared in float32, with extremes, moments, "
            "quantiles and failure counts; compilation is inside",
        ),
        Case(
            name=f"JL distortion, all pairs, {SIZE}: peak memory of the process",
            unit="MB",
            ours=lambda: _measured()[1],
            floors={"points and JAX": lambda: points_mb + jax_alone_mb()},
            once=True,
            note=f"the points are {points_mb:.0f} MB",
        ),
    ]


@cache  # time and memory of the same process
def _measured() -> tuple[float, float]:
    command = [sys.executable, "-m", "experiments.benchmarks.jl_large"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, megabytes = done.stdout.split()
    return float(seconds), float(megabytes)


def _once() -> tuple[float, float]:
    """Seconds, and megabytes at the peak, of this process."""
    begun = time.perf_counter()
    point_key, map_key = jax.random.split(jax.random.key(0))
    points = jax.random.normal(point_key, (N_POINTS, DIM_IN))
    images = project(map_key, points, MapSpec(MapFamily.gaussian, DIM_IN, DIM_OUT))
    bounds = jnp.array([[-e, e] for e in (0.1, 0.2, 0.3)])
    summarise(distortion(points, images, bounds, near_capacity=0), require_distinct=True)
    return time.perf_counter() - begun, peak_mb()


if __name__ == "__main__":
    print(*_once())
