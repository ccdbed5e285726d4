"""The six computations whose cost is measured, each for one size."""

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.known import frozen_unequal
from circuitax.circuits.ledger.ledger import head_ledger
from circuitax.circuits.paths.expansion import n_paths
from circuitax.circuits.weights.composition import composition_scores
from circuitax.kernel.chain import chain_of
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.streaming import top_k
from circuitax.kernel.weights import HeadStack
from circuitax.models.toy import ToySpec
from circuitax.projection.distortion import distortion
from circuitax.projection.maps import MapFamily, MapSpec, project
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, new_members
from circuitax.training.optim import OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem

HEADS_A_LAYER, D_MODEL, D_HEAD = 8, 256, 32
RANK, K_ENTRIES = 64, 100
PATH_HEADS, PATH_CTX, PATH_WIDTH, TAIL, K_PATHS = 8, 32, 16, 1.5, 20
N_FEATURES, N_HIDDEN, TOY_BATCH, TOY_STEPS, DENSITY = 20, 5, 256, 40, 0.1
DIM_OUT, POINTS_DIM, DIMENSIONS_POINTS = 64, 256, 1000
BOUNDS = ((-0.1, 0.1), (-0.3, 0.3))


class Work(NamedTuple):
    """One computation of one size.

    Attributes:
        size: What its cost is drawn against: heads, paths, points ...
        compute: Does it once.
        megabytes: Its peak of memory: arguments, results and what is held between.
    """

    size: float
    compute: Callable[[], Any]
    megabytes: Callable[[], float]


def compiled(size: float, function: Callable[..., Any], *arguments: Any) -> Work:
    """A jitted function of arrays; XLA says what memory its program needs."""
    program = jax.jit(function).lower(*arguments).compile()

    def megabytes() -> float:
        plan = program.memory_analysis()
        names = ("argument", "output", "temp")
        return sum(getattr(plan, f"{name}_size_in_bytes") for name in names) / 2**20

    return Work(size, lambda: jax.block_until_ready(program(*arguments)), megabytes)


def heads(key: jax.Array, n_layers: int) -> Work:
    """Composition scores of all pairs in so many layers of 8 heads, in 256 dimensions."""
    keys = jax.random.split(key, 4)
    wide, tall = (D_MODEL, D_HEAD), (D_HEAD, D_MODEL)
    shapes = [(n_layers, HEADS_A_LAYER, *last) for last in (wide, wide, wide, tall)]
    stack = HeadStack(*(jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)))
    model = Model.of(W_E=jnp.zeros((1, D_MODEL)), W_U=jnp.zeros((D_MODEL, 1)), attention=stack)
    return compiled(n_layers * HEADS_A_LAYER, composition_scores, model)


def vocabulary(key: jax.Array, d_vocab: int) -> Work:
    """The hundred largest entries of a token circuit of rank 64."""
    left, right = (jax.random.normal(k, (d_vocab, RANK)) for k in jax.random.split(key))
    return compiled(d_vocab, partial(top_k, k=K_ENTRIES), chain_of(left, right.T))


def paths(key: jax.Array, n_layers: int) -> Work:
    """The twenty largest paths through so many layers of 8 heads of unequal strength."""
    spec = TransformerSpec(
        d_vocab=64,
        n_ctx=PATH_CTX,
        n_layers=n_layers,
        n_heads=PATH_HEADS,
        d_model=PATH_HEADS * PATH_WIDTH,
        init_embed=2.0,
    )
    frozen = frozen_unequal(key, derive(key, "strength"), spec, TAIL)
    direction = frozen.read_out.W_U[:, 3]

    def search() -> Any:
        found = head_ledger(frozen, PATH_CTX - 1, direction, k=K_PATHS)
        if not found.complete:
            raise RuntimeError(f"the ledger of {n_layers} layers ended with a gap")
        return found

    def megabytes() -> float:
        tracemalloc.start()
        try:
            search()
            return tracemalloc.get_traced_memory()[1] / 2**20
        finally:
            tracemalloc.stop()

    return Work(n_paths(n_layers, PATH_HEADS), search, megabytes)


def members(key: jax.Array, n_members: int) -> Work:
    """Forty training steps of so many toy models, each on batches of its own."""
    each = jnp.ones((n_members, N_FEATURES))
    ensemble_members = new_members(key, 1e-3, ToyHyper(DENSITY * each, each))
    problem = ToyProblem(ToySpec(N_FEATURES, N_HIDDEN), TOY_BATCH)
    plan = Plan(problem, OptimSpec(), TOY_STEPS, mesh=None)
    advance = ensemble.advance(plan, ensemble_members)
    # Inside another jit nothing is donated, so that one state serves all rounds.
    return compiled(n_members, advance, ensemble.init(plan, ensemble_members))


def points(key: jax.Array, n_points: int) -> Work:
    """Distortion of all pairs of so many points under a map from 256 to 64 dimensions."""
    return _distortion(key, n_points, POINTS_DIM, n_points)


def dimensions(key: jax.Array, dim_in: int) -> Work:
    """Distortion of all pairs of 1,000 points under a map from so many dimensions to 64."""
    return _distortion(key, DIMENSIONS_POINTS, dim_in, dim_in)


def _distortion(key: jax.Array, n_points: int, dim_in: int, size: int) -> Work:
    cloud = jax.random.normal(derive(key, "cloud"), (n_points, dim_in))
    spec, bounds = MapSpec(MapFamily.gaussian, dim_in, DIM_OUT), jnp.array(BOUNDS)

    def distort(key: jax.Array, cloud: jax.Array) -> Any:
        return distortion(cloud, project(key, cloud, spec), bounds, near_capacity=0)

    return compiled(size, distort, derive(key, "map"), cloud)


WORKS: dict[str, Callable[[jax.Array, int], Work]] = {
    work.__name__: work for work in (heads, vocabulary, paths, members, points, dimensions)
}


def processor_seconds(compute: Callable[[], Any], least: float) -> float:
    """Processor time of one call, over as many calls as fill ``least`` seconds of it.

    Time of the processors, not of the clock: a machine that also does other work tells the same.
    """
    start, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - start < least:
        compute()
        calls += 1
    return float(np.float64(time.process_time() - start) / calls)
