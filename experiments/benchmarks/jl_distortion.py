"""All-pairs distortion of a random projection, against scikit-learn: time, and peak memory.

    python -m experiments.benchmarks.jl_distortion

prints the peak of memory of our side alone, in MB, which the table's row asks of a fresh process.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count

import jax
import jax.numpy as jnp

from circuitax.kernel.keys import at_index
from circuitax.projection.distortion import distortion
from circuitax.projection.maps import MapFamily, MapSpec, project
from circuitax.projection.stream import Stream, quantile, summarise
from experiments.benchmarks.case import Case
from experiments.benchmarks.memory import jax_alone_mb, peak_mb
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.profiled import time_by_kind

N_POINTS, DIM_IN, DIM_OUT = 6000, 2000, 400
WANTED = "85 %"
LEVELS = (0.01, 0.5, 0.99)
PEER = "scikit-learn 1.9, GaussianRandomProjection + euclidean_distances"
SIZE = f"N={N_POINTS}, {DIM_IN} → {DIM_OUT}"
# Multiplications and additions: half of both Gram matrices, and the projection.
FLOPS = N_POINTS**2 * float(DIM_IN + DIM_OUT) + 2.0 * N_POINTS * DIM_IN * DIM_OUT


def cases(stack: ExitStack) -> list[Case]:
    """Ours takes all statistics in its pass; the peer distances only, or statistics too."""
    ours = our_round()
    return [
        *(
            _time_case(stack, ours, *setting)
            for setting in (
                ("float32", False),
                ("float64", False),
                ("float64", True),
            )
        ),
        _memory_case(stack),
    ]


def our_round() -> Callable[[], float]:
    """One projection with a fresh map, its distortion over all pairs, and the summary; seconds."""
    points = jax.random.normal(jax.random.key(0), (N_POINTS, DIM_IN))
    bounds = jnp.array([[-e, e] for e in (0.1, 0.2, 0.3)])
    spec = MapSpec(MapFamily.gaussian, DIM_IN, DIM_OUT)
    seeds = count()

    @jax.jit
    def distort(key: jax.Array, points: jax.Array) -> Stream:
        return distortion(points, project(key, points, spec), bounds, near_capacity=0)

    def ours() -> float:
        key = at_index(jax.random.key(1), next(seeds))
        start = time.perf_counter()
        summary = summarise(jax.block_until_ready(distort(key, points)), require_distinct=True)
        for level in LEVELS:
            quantile(summary, level)
        return time.perf_counter() - start

    return ours


def _ask(peer: Peer, dtype: str, statistics: bool, seed: int) -> dict[str, float]:
    return peer.ask(
        n_points=N_POINTS,
        dim_in=DIM_IN,
        dim_out=DIM_OUT,
        dtype=dtype,
        statistics=statistics,
        levels=LEVELS,
        seed=seed,
    )


def _time_case(stack: ExitStack, ours: Callable[[], float], dtype: str, statistics: bool) -> Case:
    peer, seeds = stack.enter_context(Peer("jl_sklearn.py")), count()
    work = "distances, extremes, quantiles" if statistics else "distances only"
    return Case(
        name=f"JL distortion, all pairs, {SIZE}; peer in {dtype}, {work}",
        unit="s",
        ours=ours,
        theirs=lambda: _ask(peer, dtype, statistics, next(seeds))["seconds"],
        peer=PEER,
        wanted=WANTED,
        flops=FLOPS,
        moved=4.0 * N_POINTS * DIM_IN,
        draws=DIM_IN * DIM_OUT,
        parts=lambda: time_by_kind(ours),
        note="ours in float32 with extremes, moments, quantiles and failure counts in the same "
        "pass; the peer works in double precision inside, and is faster when given it",
    )


def _memory_case(stack: ExitStack) -> Case:
    peer, seeds = stack.enter_context(Peer("jl_sklearn.py")), count()
    points_mb = 4 * N_POINTS * DIM_IN / 2**20

    def ours() -> float:
        command = [sys.executable, "-m", "experiments.benchmarks.jl_distortion"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout)

    return Case(
        name=f"JL distortion, all pairs, {SIZE}: peak memory of the process",
        unit="MB",
        ours=ours,
        theirs=lambda: _ask(peer, "float64", True, next(seeds))["peak_mb"],
        peer=PEER,
        floors={"points and JAX": lambda: points_mb + jax_alone_mb()},
        note=f"the points are {points_mb:.0f} MB in float32 and {2 * points_mb:.0f} MB in double "
        "precision; ours has no N×N term",
    )


if __name__ == "__main__":
    run = our_round()
    run()
    print(peak_mb())
