"""All-pairs distortion of a random projection, against scikit-learn: time, and peak memory.

    python -m experiments.benchmarks.jl_distortion

prints the peak of memory of our side alone, in MB, which the table's row asks of a fresh process.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from itertools import count

import jax
import jax.numpy as jnp

from circuitax.kernel.keys import at_index
from circuitax.projection.distortion import distortion
from circuitax.projection.maps import MapFamily, MapSpec, project
from circuitax.projection.stream import Stream, quantile, summarise
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import alone, peak_mb, seconds

SIZES = N_POINTS, DIM_IN, DIM_OUT = 6000, 2000, 400
LEVELS = (0.01, 0.5, 0.99)
PEER = "scikit-learn 1.9.1, GaussianRandomProjection + euclidean_distances"
NAME = f"JL distortion, all pairs, N={N_POINTS}, {DIM_IN} → {DIM_OUT}"


def cases(stack: ExitStack) -> list[Case]:
    """Ours takes all statistics in its pass; the peer distances only, or statistics too."""
    ours, points_mb = our_round(), 4 * N_POINTS * DIM_IN / 2**20
    found = []
    for dtype, work in (("float32", ""), ("float64", ""), ("float64", ", extremes, quantiles")):
        peer = stack.enter_context(Peer("jl_sklearn"))
        levels = LEVELS if work else ()
        case = Case(
            f"{NAME}; peer in {dtype}, distances{work or ' only'}",
            "s",
            ours,
            peer.round(sizes=SIZES, dtype=dtype, levels=levels),
            PEER,
            wanted="85 %",
            # Half of both Gram matrices, and the projection.
            flops=N_POINTS**2 * (DIM_IN + DIM_OUT) + 2.0 * N_POINTS * DIM_IN * DIM_OUT,
            moved=4.0 * N_POINTS * DIM_IN,
            draws=DIM_IN * DIM_OUT,
            note="ours in float32 with extremes, moments, quantiles and failure counts in the same "
            "pass; the peer works in double precision inside, and is faster when given it",
        )
        found.append(case)
    memory = Case(
        f"{NAME}: peak memory of the process",
        "MB",
        cache(lambda: alone("jl_distortion")),
        peer.round(key="peak_mb", sizes=SIZES, dtype="float64", levels=LEVELS),
        PEER,
        note=f"the points are {points_mb:.0f} MB in float32 and {2 * points_mb:.0f} MB in double "
        "precision; ours has no N×N term",
    )
    return [*found, memory]


def our_round() -> Callable[[], float]:
    """One projection with a fresh map, its distortion over all pairs, and the summary; seconds."""
    points = jax.random.normal(jax.random.key(0), (N_POINTS, DIM_IN))
    bounds = jnp.array([[-e, e] for e in (0.1, 0.2, 0.3)])
    spec, seeds = MapSpec(MapFamily.gaussian, DIM_IN, DIM_OUT), count()

    @jax.jit
    def distort(key: jax.Array, points: jax.Array) -> Stream:
        return distortion(points, project(key, points, spec), bounds, near_capacity=0)

    def summary(key: jax.Array) -> None:
        found = summarise(jax.block_until_ready(distort(key, points)), require_distinct=True)
        for level in LEVELS:
            quantile(found, level)

    return lambda: seconds(summary, at_index(jax.random.key(1), next(seeds)))


if __name__ == "__main__":
    our_round()()
    print(peak_mb())
