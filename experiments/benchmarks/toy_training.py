"""Training toy models: a step, and two whole figures, against the official protocol."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TiedWeights
from circuitax.models.toy import ToySpec
from circuitax.superposition.expected_loss import Convention
from circuitax.training import ensemble
from circuitax.training.ensemble import Plan, as_cells, best_of, new_members, take
from circuitax.training.optim import OptimSpec, Schedule
from circuitax.training.problem import fresh_losses
from circuitax.training.toy import ToyHyper, ToyProblem
from experiments.benchmarks.harness import Case, Peer
from experiments.benchmarks.machine import seconds

PEER = "PyTorch 2.14.1, eager, official protocol"
# (n, m, members), steps a round of ours and of theirs, targets with common and with own batches.
SHAPES = (
    ((5, 2, 10), 1000, 200, (12.0, 5.0)),
    ((100, 20, 20), 60, 12, (6.5, 4.0)),
    ((200, 20, 20), 40, 8, (8.0, 4.0)),
)
BATCH = 1024
# Ours for the intro figure: a larger rate on a cosine, and the better of two restarts.
INTRO_STEPS, INTRO_RATE, INTRO_RESTARTS, INTRO_THEIR_STEPS = 1000, 2e-2, 2, 10_000
INTRO_EXAM = 64  # batches that both are measured on
GEOMETRY, GEOMETRY_STEPS = ((200, 20, 20), 200, 40), 10_000  # of the published notebook


def cases(stack: ExitStack) -> list[Case]:
    """A step at three shapes, with common and with independent data; then two figures."""
    peer = stack.enter_context(Peer("toy_models_torch"))
    return [*steps(peer), intro(peer), geometry(peer)]


def hypers(n: int, n_members: int, decay: float = 0.9) -> ToyHyper:
    """Densities from 1 to 1/20, and importances that fall by this factor."""
    density = jnp.logspace(0, -jnp.log10(20.0), n_members)[:, None]
    importance = decay ** jnp.arange(n, dtype=float)[None, :]
    return ToyHyper(*(jnp.broadcast_to(each, (n_members, n)) for each in (density, importance)))


def problem(n: int, m: int) -> ToyProblem:
    """The official loss."""
    return ToyProblem(ToySpec(n, m), BATCH, Convention.mean)


def setting(n: int, m: int, hyper: ToyHyper) -> dict:
    """The same as a request to the peer."""
    density, importance = hyper.density[:, 0].tolist(), hyper.importance[0].tolist()
    return {"n": n, "m": m, "density": density, "importance": importance, "batch": BATCH}


def needs(n: int, m: int, n_members: int, share: int) -> tuple[float, float]:
    """Operations of one step, ``W x``, ``Wᵀ h`` and the three of the gradient; and its draws."""
    return 10.0 * n * m * BATCH * n_members, n * BATCH * n_members / share


def our_steps(
    n: int, m: int, hyper: ToyHyper, n_steps: int, share: int, *, scale: float
) -> Callable[[], float]:
    """Seconds a step times ``scale``, of a training that goes on."""
    members = new_members(jax.random.key(0), 1e-3, hyper, common=share)
    plan = Plan(problem(n, m), OptimSpec(), chunk=n_steps, common=share)
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)

    def chunk() -> TiedWeights:
        nonlocal state
        state, _ = advance(state)
        return state.params

    return lambda: scale * seconds(chunk) / n_steps


def steps(peer: Peer) -> Iterator[Case]:
    """One step of each shape."""
    for common in (True, False):
        for (n, m, n_members), our_count, their_count, targets in SHAPES:
            hyper, share = hypers(n, n_members), n_members if common else 1
            ours = our_steps(n, m, hyper, our_count, share, scale=1e3)
            kind = "one batch for all members" if common else "own batch for each member"
            flops, draws = needs(n, m, n_members, share)
            scale = 1e3 / their_count
            yield Case(
                f"toy step, n={n}, m={m}, {n_members} members, {kind}",
                "ms a step",
                ours,
                peer.round(scale=scale, steps=their_count, **setting(n, m, hyper)),
                PEER,
                targets[0 if common else 1],
                flops=flops,
                draws=draws,
                seconds=1e-3,
                note="same optimizer, batch and loss; theirs draws twice a feature and member",
            )


def geometry(peer: Peer) -> Case:
    """All features equally important; steps of both sides are timed, and scaled."""
    (n, m, n_members), our_count, their_count = GEOMETRY
    hyper = hypers(n, n_members, decay=1.0)
    flops, draws = needs(n, m, n_members, n_members)
    scale = GEOMETRY_STEPS / their_count
    return Case(
        "geometry figure by the official protocol",
        "s",
        our_steps(n, m, hyper, our_count, n_members, scale=GEOMETRY_STEPS),
        peer.round(scale=scale, steps=their_count, **setting(n, m, hyper)),
        PEER,
        5.0,
        flops=GEOMETRY_STEPS * flops,
        draws=GEOMETRY_STEPS * draws,
        note=f"{n} features in {m} dimensions at {n_members} densities by the official protocol on "
        f"both sides, {GEOMETRY_STEPS:,} steps of AdamW at 1e-3, of which ours times {our_count} "
        f"and theirs {their_count} a round, and scales; one batch serves all our members. Fewer "
        "steps do not do here: 3,000 at 1e-2 on a cosine end at a mean loss of 0.0542, the "
        "published notebook at 0.0538",
    )


def intro(peer: Peer) -> Case:
    """Time to a mean loss that is no higher than the official one's, over the rounds so far."""
    n, m, n_densities = 5, 2, 10
    hyper, toy = hypers(n, n_densities), problem(n, m)
    key = derive(jax.random.key(1), "evaluation")
    exam = partial(fresh_losses, toy, hyper=hyper, key=key, n_batches=INTRO_EXAM)
    losses: dict[str, list[float]] = {"ours": [], "theirs": []}
    our_seeds, their_seeds = count(), count()

    def ours() -> float:
        found: list[TiedWeights] = []
        spent = seconds(lambda: found.append(trained(toy, hyper, next(our_seeds))))
        losses["ours"].append(float(exam(params=found[0]).mean()))
        return spent

    def theirs() -> float:
        request = {"steps": INTRO_THEIR_STEPS, "seed": next(their_seeds), "values": False}
        answer = peer.ask(**setting(n, m, hyper), **request)
        weights = TiedWeights(jnp.asarray(answer["W"]), jnp.asarray(answer["b"]))
        losses["theirs"].append(float(exam(params=weights).mean()))
        mean = {side: float(np.mean(each)) for side, each in losses.items()}
        if mean["ours"] > mean["theirs"]:
            raise RuntimeError(f"our mean loss is higher than theirs: {mean}")
        return answer["seconds"]

    flops, draws = needs(n, m, INTRO_RESTARTS * n_densities, INTRO_RESTARTS * n_densities)
    return Case(
        "intro figure to an equal or better loss",
        "s",
        ours,
        theirs,
        PEER,
        20.0,
        flops=INTRO_STEPS * flops,
        draws=INTRO_STEPS * draws,
        note=f"ours: {INTRO_STEPS} steps at {INTRO_RATE:g} on a cosine, better of "
        f"{INTRO_RESTARTS}, warm; theirs: {INTRO_THEIR_STEPS} steps; mean loss over densities on "
        f"{INTRO_EXAM * BATCH:,} common fresh samples is no higher, or the benchmark stops",
    )


def trained(toy: ToyProblem, hyper: ToyHyper, seed: int) -> TiedWeights:
    """The better of some restarts at every density."""
    key, restarts = jax.random.key(seed), INTRO_RESTARTS
    each = jax.tree.map(lambda leaf: jnp.repeat(leaf, restarts, axis=0), hyper)
    n_members = each.density.shape[0]
    members = new_members(key, INTRO_RATE, each, common=n_members)
    optim = OptimSpec(schedule=Schedule.cosine, steps=INTRO_STEPS)
    plan = Plan(toy, optim, chunk=INTRO_STEPS, common=n_members)
    state, _ = ensemble.advance(plan, members)(ensemble.init(plan, members))
    losses = fresh_losses(toy, state.params, each, derive(key, "selection"), 8).mean(axis=0)
    cells = as_cells((losses, state.alive, state.params), hyper.density.shape[0])
    return jax.block_until_ready(take(cells[2], best_of(cells[0], cells[1]).restart))
