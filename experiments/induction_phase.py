"""Induction heads appear in a phase change: two layers or smeared keys, never one plain layer."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.phase_change import change_window, speed_up, steepest_stretch
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.keys import derive
from circuitax.kernel.weights import TransformerWeights
from circuitax.lab.lab import Lab
from circuitax.models.specs import TransformerSpec
from circuitax.records.claims import Claim, Expected, at_least, at_most
from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, proportion_estimate
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from circuitax.training.selection import divergence

BUDGET_SECONDS = 120
# Layers, and whether keys are smeared.
ARMS = {
    "1 layer": (1, False),
    "1 layer, smeared": (1, True),
    "2 layers": (2, False),
    "2 layers, smeared": (2, True),
}
# A seed has a phase change if context comes to save a nat within a sixth of its training, while
# its whole loss starts to fall faster than before; a bag of the words seen so far does neither.
JUMP_NATS = 1.0
BUMP_NATS = 0.3
PREFIX_SCORE = 0.4


@dataclass(frozen=True)
class Spec:
    """One recipe for all four arms.

    Attributes:
        model: Sizes; layers and smeared keys are set by each arm.
        task: Texts to train on; those to measure on have the same sizes and distinct symbols.
        optim: Optimizer.
        seeds: Members of each arm, each with its own initialisation and data.
        measure_every: Steps between two measurements; must divide ``optim.steps``.
        texts: Texts to measure on.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: int = 16
    measure_every: int = 20
    texts: int = 64

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds={self.seeds} must be at least 1")
        if self.texts < 1:
            raise ValueError(f"texts={self.texts} must be at least 1")
        if self.measure_every < 1 or self.optim.steps % self.measure_every:
            raise ValueError(
                f"measure_every={self.measure_every} must divide optim.steps={self.optim.steps}"
            )
        if self.model.d_vocab != self.task.d_vocab:
            raise ValueError(
                f"model.d_vocab={self.model.d_vocab} must equal task.d_vocab={self.task.d_vocab}"
            )
        if self.task.min_period < 2 or self.task.max_period > self.task.length - 2:
            raise ValueError(
                f"task.min_period={self.task.min_period} and max_period={self.task.max_period} "
                "must leave tokens before and after for the in-context score"
            )
        replace(self.task, distinct=True)


def _claim(
    id: str, statement: str, expected: Expected, why: str, source: str, explanation: str = ""
) -> Claim:
    return Claim(id=id, source=f"induction-heads paper, {source}", statement=statement,
                 quantity=id, expected=expected, why=why, kind="shape", n=16,
                 selection="all seeds that stayed finite; each its own data",
                 explanation=explanation)  # fmt: skip


MOST = "95 % interval of a proportion; 16 of 16 give a lower end of 0.81, 15 of 16 of 0.72"
NONE = "95 % interval of a proportion; 0 of 16 give an upper end of 0.19"
PILOT = "threshold from pilot runs with other keys, far from both groups"
CLAIMS = (
    _claim("phase-two-layers", "Share of two-layer models with a phase change in the in-context "
           "score", at_least(0.75), MOST, "in-context score over training (O1)"),
    _claim("phase-one-layer", "Share of one-layer models with a phase change", at_most(0.25), NONE,
           "in-context score over training (O1)"),
    _claim("phase-smeared", "Share of one-layer models with smeared keys with a phase change",
           at_least(0.75), MOST, "smeared keys (O7)"),
    _claim("phase-smeared-earlier", "Half of the in-context gain of two-layer models comes earlier "
           "with smeared keys than without: difference in steps", at_most(0), "a relation",
           "smeared keys (O7)", "no difference is seen: with 32 symbols and two heads a layer, a "
           "previous-token head forms as fast as keys learn to be smeared"),
    _claim("prefix-two-layers", "Share of two-layer models with a prefix-matching head (score over "
           "0.4)", at_least(0.75), MOST, "prefix matching over training (O3)"),
    _claim("prefix-one-layer", "Share of one-layer models with a prefix-matching head",
           at_most(0.25), NONE, "prefix matching over training (O3)"),
    _claim("icl-depth", "In-context score of one-layer minus that of two-layer models at the end, "
           "nats", at_least(1), PILOT, "in-context score over training (O1)"),
    _claim("bump-two-layers", "Share of two-layer models whose loss curve has a non-convex stretch "
           "(a sixth of training in which it falls 0.3 nats more than in an earlier sixth)",
           at_least(0.75), MOST, "loss curves (O4)"),
    _claim("bump-one-layer", "Share of one-layer models whose loss curve has a non-convex stretch",
           at_most(0.25), NONE, "loss curves (O4)"),
    _claim("together-prefix", "Share of two-layer models in which half of the prefix matching is "
           "reached within the phase change (the sixth of training where the in-context score "
           "falls most)", at_least(0.75), MOST, "simultaneity (argument 1)"),
    _claim("together-previous", "The same for the previous-token score of the first layer",
           at_least(0.75), MOST, "simultaneity (argument 1)",
           "15 of 16 seeds; the previous-token score starts to rise with the others, but goes on "
           "rising slowly after the phase change, so that its half way point comes last"),
)  # fmt: skip


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train the four arms and measure every curve of every seed."""
    exam = replace(spec.task, batch=spec.texts, distinct=True)(derive(key, "evaluation"))
    n_chunks = spec.optim.steps // spec.measure_every
    steps = np.arange(n_chunks + 1) * spec.measure_every
    curves, divergences = {}, {}
    for arm, (n_layers, smeared) in ARMS.items():
        model = replace(spec.model, n_layers=n_layers, smeared_keys=smeared)
        plan = Plan(NextToken(model, spec.task), spec.optim, spec.measure_every)
        members = new_members(derive(key, arm), spec.optim.learning_rate, jnp.zeros(spec.seeds))
        state, train = init(plan, members), advance(plan, members)
        examine = jax.jit(jax.vmap(partial(measure, model, spec.task), in_axes=(0, None)))
        first = jax.tree.map(np.asarray, examine(state.params, exam))
        state, later = lab.loop(
            arm.replace(", ", "-").replace(" ", "-"),
            state,
            _with_exam(train, lambda params, examine=examine: examine(params, exam)),
            n_chunks,
            show="loss",
        )
        curves[arm] = {name: np.concatenate([first[name][None], later[name]]) for name in first}
        curves[arm]["alive"] = np.asarray(state.alive)
        divergences[arm] = divergence(state.alive, state.step)
    data = _dataset(spec, steps, curves)
    return Record(data=data, measured=_estimates(data), notes={"divergence": divergences})


def measure(
    model: TransformerSpec, task: RepeatedSource, weights: TransformerWeights, texts: Array
) -> dict[str, Array]:
    """Scores of one member; the in-context score is late losses minus early ones, as in the paper.

    Before position ``min_period - 1`` no token can be known, from ``max_period`` on all can.
    """
    scores = induction_scores(weights, texts, model.forward_spec())
    losses = scores.loss_by_position
    early, late = losses[: task.min_period - 1], losses[task.max_period :]
    in_context = late.mean() - early.mean()
    return scores._asdict() | {"loss": losses.mean(), "in_context": in_context}


def _with_exam(train: Callable, examine: Callable) -> Callable:
    def both(state: Any) -> tuple[Any, dict[str, Array]]:
        state, metrics = train(state)
        return state, examine(state.params) | {"training_loss": metrics["loss"]}

    return both


def _dataset(spec: Spec, steps: np.ndarray, curves: dict[str, dict[str, np.ndarray]]) -> xr.Dataset:
    def stack(name: str) -> np.ndarray:
        return np.stack([arm[name] for arm in curves.values()])

    def stack_heads(name: str) -> np.ndarray:
        arrays = [arm[name] for arm in curves.values()]
        most = max(a.shape[2] for a in arrays)
        widths = [
            [(0, most - n if axis == 2 else 0) for axis, n in enumerate(a.shape)] for a in arrays
        ]
        padded = [np.pad(a, w, constant_values=np.nan) for a, w in zip(arrays, widths, strict=True)]
        return np.stack(padded)

    over = ("arm", "step", "member")
    data = xr.Dataset(
        {
            "loss": (over, stack("loss")),
            "in_context": (over, stack("in_context")),
            "loss_by_position": ((*over, "position"), stack("loss_by_position")),
            "prefix": ((*over, "layer", "head"), stack_heads("prefix")),
            "previous": ((*over, "layer", "head"), stack_heads("previous")),
            "alive": (("arm", "member"), stack("alive")),
            "chance": float(curves["2 layers"]["chance"][0, 0]),
        },
        coords={"arm": list(curves), "step": steps},
    )
    data["best_prefix"] = data.prefix.max(["layer", "head"])
    data["best_previous"] = data.previous.isel(layer=0).max("head")

    def each(rule: Callable, name: str, *rest: float) -> Any:
        curve = data[name].transpose("arm", "member", "step").values
        return jax.tree.map(np.asarray, rule(jnp.asarray(steps), jnp.asarray(curve), *rest))

    members = ("arm", "member")
    for name in ("in_context", "loss", "best_prefix", "best_previous"):
        window = each(change_window, name)
        for part, value in window._asdict().items():
            data[f"{name}_{part}"] = (members, value)
    stretch = spec.optim.steps / 6
    jump = each(steepest_stretch, "in_context", stretch)
    data["jump"], data["jump_start"] = (members, jump.fall), (members, jump.start)
    data["jump_end"] = data.jump_start + stretch
    data["bump"] = (members, each(speed_up, "loss", stretch))
    return data


def _estimates(data: xr.Dataset) -> dict[str, Estimate]:
    def arm(name: str) -> xr.Dataset:
        chosen = data.sel(arm=name)
        return chosen.isel(member=np.flatnonzero(chosen.alive.values))

    def share(yes: xr.DataArray) -> Estimate:
        return proportion_estimate(int(yes.sum()), yes.size)

    def inside(members: xr.Dataset, middle: xr.DataArray) -> Estimate:
        within = (middle >= members.jump_start) & (middle <= members.jump_end)
        return share(within & (members.jump >= JUMP_NATS))

    one, two = arm("1 layer"), arm("2 layers")
    smeared, both = arm("1 layer, smeared"), arm("2 layers, smeared")
    last = {"step": -1}
    return {
        "phase-two-layers": share(two.jump >= JUMP_NATS),
        "phase-one-layer": share(one.jump >= JUMP_NATS),
        "phase-smeared": share(smeared.jump >= JUMP_NATS),
        "phase-smeared-earlier": difference_estimate(
            both.in_context_middle.values, two.in_context_middle.values
        ),
        "prefix-two-layers": share(two.best_prefix.isel(last) >= PREFIX_SCORE),
        "prefix-one-layer": share(one.best_prefix.isel(last) >= PREFIX_SCORE),
        "icl-depth": difference_estimate(
            one.in_context.isel(last).values, two.in_context.isel(last).values
        ),
        "bump-two-layers": share(two.bump >= BUMP_NATS),
        "bump-one-layer": share(one.bump >= BUMP_NATS),
        "together-prefix": inside(two, two.best_prefix_middle),
        "together-previous": inside(two, two.best_previous_middle),
    }
