"""Training toy models: a step, and two whole figures, against the official protocol."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention
from circuitax.training import ensemble
from circuitax.training.ensemble import (
    Plan,
    as_cells,
    best_of,
    every_device,
    new_members,
    place,
    take,
)
from circuitax.training.optim import OptimSpec, Schedule
from circuitax.training.problem import fresh_losses
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.benchmarks.case import Case
from experiments.benchmarks.peer import Peer
from experiments.benchmarks.profiled import time_by_kind

PEER = "PyTorch 2.13.0, eager, official protocol"
# (n, m, members), steps a round of ours and of theirs, targets with common and with own batches.
SHAPES = (
    ((5, 2, 10), 1000, 200, (12.0, 5.0)),
    ((100, 20, 20), 60, 12, (6.5, 4.0)),
    ((200, 20, 20), 40, 8, (8.0, 4.0)),
)
BATCH = 1024
DRAWING = "drawing of the batches alone"
# Ours for the intro figure: a larger rate on a cosine, and the better of two restarts.
INTRO_STEPS, INTRO_RATE, INTRO_RESTARTS = 1000, 2e-2, 2
INTRO_THEIR_STEPS = 10_000
INTRO_EXAM = 64  # batches that both are measured on
# The geometry figure of the published notebook: (n, m, members), all features equally important.
GEOMETRY_SHAPE, GEOMETRY_STEPS = (200, 20, 20), 10_000
GEOMETRY_OURS, GEOMETRY_THEIRS = 200, 40  # steps timed in a round


def cases(stack: ExitStack) -> list[Case]:
    """A step at three shapes, with common and with independent data; then two figures."""
    peer = stack.enter_context(Peer("toy_models_torch.py"))
    steps = [
        _step_case(peer, shape, ours, theirs, targets[0 if common else 1], common)
        for common in (True, False)
        for shape, ours, theirs, targets in SHAPES
    ]
    return [*steps, _intro_case(peer), _geometry_case(peer)]


def _hyper(n: int, n_members: int) -> ToyHyper:
    density = jnp.logspace(0, -jnp.log10(20.0), n_members)
    importance = 0.9 ** jnp.arange(n, dtype=float)
    each = jnp.broadcast_to(importance[None, :], (n_members, n))
    return ToyHyper(jnp.broadcast_to(density[:, None], (n_members, n)), each)


def _request(hyper: ToyHyper, n: int, m: int) -> dict:
    density, importance = hyper.density[:, 0].tolist(), hyper.importance[0].tolist()
    return {"n": n, "m": m, "density": density, "importance": importance, "batch": BATCH}


def _step_case(
    peer: Peer,
    shape: tuple[int, int, int],
    our_steps: int,
    their_steps: int,
    target: float,
    common: bool,
) -> Case:
    n, m, n_members = shape
    hyper = _hyper(n, n_members)
    share = n_members if common else 1
    members = new_members(jax.random.key(0), 1e-3, hyper, common=share)
    problem = ToyProblem(ToySpec(n, m), BATCH, Convention.mean)
    plan = Plan(problem, OptimSpec(), chunk=our_steps, common=share)
    state = ensemble.init(plan, members)
    advance = ensemble.advance(plan, members)

    def ours() -> float:
        nonlocal state
        start = time.perf_counter()
        state, _ = jax.block_until_ready(advance(state))
        return (time.perf_counter() - start) / our_steps * 1e3

    def theirs() -> float:
        answer = peer.ask(**_request(hyper, n, m), steps=their_steps, fresh=False)
        return answer["seconds"] / their_steps * 1e3

    kind = "one batch for all members" if common else "own batch for each member"
    return Case(
        name=f"toy step, n={n}, m={m}, {n_members} members, {kind}",
        unit="ms a step",
        ours=ours,
        theirs=theirs,
        peer=PEER,
        target=target,
        flops=_flops(n, m, n_members),
        draws=n * BATCH * n_members / share,
        floors={DRAWING: _drawing(problem, n_members // share, our_steps)},
        parts=lambda: time_by_kind(ours),
        seconds=1e-3,
        note="same optimizer, batch and loss; theirs draws twice a feature and member",
    )


def _flops(n: int, m: int, n_members: int) -> float:
    """Operations of one step: ``W x``, ``Wᵀ h``, and the three products of the gradient."""
    return 10.0 * n * m * BATCH * n_members


def _drawing(problem: ToyProblem, n_batches: int, n_steps: int) -> Callable[[], float]:
    """Milliseconds a step to draw its batches and to do no more than add them up.

    Batches of their own are drawn where their members are; a common one is drawn everywhere.
    """
    keys, mesh = jax.random.split(jax.random.key(0), n_batches), every_device()
    if mesh is not None and n_batches > 1:
        keys = place(keys, mesh, n_batches)

    @jax.jit
    def draw(keys: jax.Array) -> jax.Array:
        def one(total: jax.Array, step: jax.Array) -> tuple[jax.Array, None]:
            drawn = jax.vmap(problem.batch, (0, None))(keys, step)
            return total + drawn.sum(axis=(1, 2)), None

        return jax.lax.scan(one, jnp.zeros(n_batches), jnp.arange(n_steps))[0]

    jax.block_until_ready(draw(keys))

    def drawing() -> float:
        start = time.perf_counter()
        jax.block_until_ready(draw(keys))
        return (time.perf_counter() - start) / n_steps * 1e3

    return drawing


def _intro_case(peer: Peer) -> Case:
    n, m, n_densities = 5, 2, 10
    hyper = _hyper(n, n_densities)
    losses: dict[str, list[float]] = {"ours": [], "theirs": []}
    problem = ToyProblem(ToySpec(n, m), BATCH, Convention.mean)
    evaluate = partial(
        fresh_losses,
        problem,
        hyper=hyper,
        key=derive(jax.random.key(1), "evaluation"),
        n_batches=INTRO_EXAM,
    )

    def ours() -> float:
        seed = len(losses["ours"])
        start = time.perf_counter()
        weights = _train_intro(problem, hyper, seed)
        seconds = time.perf_counter() - start
        losses["ours"].append(float(evaluate(params=weights).mean()))
        return seconds

    def theirs() -> float:
        seed = len(losses["theirs"])
        request = _request(hyper, n, m)
        answer = peer.ask(**request, steps=INTRO_THEIR_STEPS, fresh=True, seed=seed)
        weights = TiedWeights(jnp.asarray(answer["W"]), jnp.asarray(answer["b"]))
        losses["theirs"].append(float(evaluate(params=weights).mean()))
        _require_as_good(losses)
        return answer["seconds"]

    note = (
        f"ours: {INTRO_STEPS} steps at {INTRO_RATE:g} on a cosine, better of {INTRO_RESTARTS}, "
        f"warm; theirs: {INTRO_THEIR_STEPS} steps; mean loss over densities on "
        f"{INTRO_EXAM * BATCH:,} common fresh samples is no higher, or the benchmark stops"
    )
    steps, n_members = INTRO_STEPS, INTRO_RESTARTS * n_densities
    return Case(
        name="intro figure to an equal or better loss",
        unit="s",
        ours=ours,
        theirs=theirs,
        peer=PEER,
        target=20.0,
        flops=steps * _flops(n, m, n_members),
        draws=steps * n * BATCH,
        parts=lambda: time_by_kind(lambda: _train_intro(problem, hyper, 0)),
        note=note,
    )


def _geometry_case(peer: Peer) -> Case:
    n, m, n_densities = GEOMETRY_SHAPE
    hyper = _hyper(n, n_densities)
    hyper = hyper._replace(importance=jnp.ones_like(hyper.importance))
    problem = ToyProblem(ToySpec(n, m), BATCH, Convention.mean)
    plan = Plan(problem, OptimSpec(), chunk=GEOMETRY_OURS, common=n_densities)
    members = new_members(jax.random.key(0), 1e-3, hyper, common=n_densities)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)

    def ours() -> float:
        nonlocal state
        start = time.perf_counter()
        state, _ = jax.block_until_ready(advance(state))
        return (time.perf_counter() - start) / GEOMETRY_OURS * GEOMETRY_STEPS

    def theirs() -> float:
        answer = peer.ask(**_request(hyper, n, m), steps=GEOMETRY_THEIRS, fresh=False)
        return answer["seconds"] / GEOMETRY_THEIRS * GEOMETRY_STEPS

    drawing = _drawing(problem, 1, GEOMETRY_OURS)
    note = (
        f"{n} features in {m} dimensions at {n_densities} densities by the official protocol on "
        f"both sides, {GEOMETRY_STEPS:,} steps of AdamW at 1e-3, of which ours times "
        f"{GEOMETRY_OURS} and theirs {GEOMETRY_THEIRS} a round, and scales; one batch serves all "
        "our members. Fewer steps do not do here: 3,000 at 1e-2 on a cosine end at a mean loss of "
        "0.0542, the published notebook at 0.0538"
    )
    return Case(
        name="geometry figure by the official protocol",
        unit="s",
        ours=ours,
        theirs=theirs,
        peer=PEER,
        target=5.0,
        flops=GEOMETRY_STEPS * _flops(n, m, n_densities),
        draws=GEOMETRY_STEPS * n * BATCH,
        floors={DRAWING: lambda: drawing() * 1e-3 * GEOMETRY_STEPS},
        parts=lambda: time_by_kind(ours),
        note=note,
    )


def _train_intro(problem: ToyProblem, hyper: ToyHyper, seed: int) -> TiedWeights:
    """The better of two restarts at every density."""
    restarts = INTRO_RESTARTS
    each = jax.tree.map(lambda leaf: jnp.repeat(leaf, restarts, axis=0), hyper)
    n_members = each.density.shape[0]
    members = new_members(jax.random.key(seed), INTRO_RATE, each, common=n_members)
    optim = OptimSpec(schedule=Schedule.cosine, steps=INTRO_STEPS)
    plan = Plan(problem, optim, chunk=INTRO_STEPS, common=n_members)
    state, _ = ensemble.advance(plan, members)(ensemble.init(plan, members))
    key = derive(jax.random.key(seed), "selection")
    losses = fresh_losses(problem, state.params, each, key, 8).mean(axis=0)
    cells = as_cells((losses, state.alive, state.params), hyper.density.shape[0])
    best = best_of(cells[0], cells[1]).restart
    return jax.block_until_ready(take(cells[2], best))


def _require_as_good(losses: dict[str, list[float]]) -> None:
    """Compare means over the rounds so far: one seed of theirs may be lucky."""
    ours, theirs = (float(np.mean(losses[side])) for side in ("ours", "theirs"))
    if ours > theirs:
        raise RuntimeError(f"our mean loss {ours:.5f} is higher than theirs, {theirs:.5f}")
