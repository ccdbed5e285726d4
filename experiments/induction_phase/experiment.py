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

from circuitax.circuits.in_context import token_losses
from circuitax.circuits.induction_scores import induction_scores
from circuitax.circuits.loss_slope import loss_slope
from circuitax.circuits.patching import Ablation, ablate, each_component
from circuitax.circuits.phase_change import change_window, speed_up, steepest_stretch
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_readable
from circuitax.lab.lab import Lab
from circuitax.models.extract_transformer import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.records.record import Record
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from circuitax.training.selection import divergence

BUDGET_SECONDS = 120
PAPER_SECONDS = 6_000  # by its work against quick scale; not run
# Layers, and whether keys are smeared.
ARMS = {
    "1 layer": (1, False),
    "1 layer, smeared": (1, True),
    "2 layers": (2, False),
    "2 layers, smeared": (2, True),
}
# A head with a prefix-matching score from here on matches prefixes.
PREFIX_SCORE = 0.4
# How an ablation is done, and which heads are taken together.
KINDS = ("patterns held", "all reacts")
GROUPS = ("prefix-matching heads", "all others")


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
        require_readable(self.model, d_vocab=self.task.d_vocab, length=self.task.length)
        if self.task.min_period < 2 or self.task.max_period > self.task.length - 2:
            raise ValueError(
                f"task.min_period={self.task.min_period} and max_period={self.task.max_period} "
                "must leave tokens before and after for the in-context score"
            )
        replace(self.task, distinct=True)


def run(spec: Spec, key: jax.Array, lab: Lab) -> Record:
    """Train the four arms and measure every curve of every seed."""
    exam = replace(spec.task, batch=spec.texts, distinct=True)(derive(key, "evaluation"))
    n_chunks = spec.optim.steps // spec.measure_every
    steps = np.arange(n_chunks + 1) * spec.measure_every
    curves, ablated, divergences = {}, {}, {}
    for arm, (n_layers, smeared) in ARMS.items():
        sizes = replace(spec.model, n_layers=n_layers, smeared_keys=smeared)
        as_models = partial(model_from_params, spec=sizes)
        plan = Plan(NextToken(Transformer(sizes), spec.task), spec.optim, spec.measure_every)
        members = new_members(derive(key, arm), spec.optim.learning_rate, jnp.zeros(spec.seeds))
        state, train = init(plan, members), advance(plan, members)
        measured = jax.jit(jax.vmap(partial(measure, task=spec.task), in_axes=(0, None)))

        def examine(
            params: Any, measured: Callable = measured, as_models: Callable = as_models
        ) -> dict[str, Array]:
            return measured(as_models(params), exam)

        first = jax.tree.map(np.asarray, examine(state.params))
        state, later = lab.loop(
            arm.replace(", ", "-").replace(" ", "-"),
            state,
            _with_exam(train, examine),
            n_chunks,
            show="loss",
        )
        curves[arm] = {name: np.concatenate([first[name][None], later[name]]) for name in first}
        curves[arm]["alive"] = np.asarray(state.alive)
        take_out = jax.jit(jax.vmap(partial(without_heads, task=spec.task), in_axes=(0, None)))
        ablated[arm] = jax.tree.map(np.asarray, take_out(as_models(state.params), exam))
        divergences[arm] = divergence(state.alive, state.step)
    data = _dataset(spec, steps, curves, ablated)
    notes = {"divergence": divergences, "prefix_score": PREFIX_SCORE}
    return Record(data=data, notes=notes)


def measure(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """Scores of one member; the in-context score is late losses minus early ones, as in the paper.

    Before position ``min_period - 1`` no token can be known, from ``max_period`` on all can.
    """
    scores = induction_scores(model, texts)
    losses = scores.loss_by_position
    return scores._asdict() | {"loss": losses.mean(), "in_context": in_context(task, losses)}


def in_context(task: RepeatedSource, losses: Array) -> Array:
    """Late losses minus early ones, over the last axis."""
    early, late = losses[..., : task.min_period - 1], losses[..., task.max_period :]
    return late.mean(axis=-1) - early.mean(axis=-1)


def without_heads(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """In-context score of one member without each head, and without two groups of heads.

    "Patterns held" is the paper's pattern-preserving ablation: only what heads write is missed.
    """
    scores = induction_scores(model, texts)
    matching = (scores.prefix >= PREFIX_SCORE).astype(float)
    each = each_component(model).heads
    cells = Ablation(jnp.concatenate([each, jnp.stack([matching, 1 - matching])]))

    def one(text: Array) -> Array:
        trace = forward(model, text)[1]
        found = [
            ablate(
                model, text, cells, lambda logits: token_losses(logits, text), preserved=preserved
            )
            for preserved in (trace, None)
        ]
        return jnp.stack(found)

    left = in_context(task, jax.vmap(one)(texts).mean(axis=0))
    n = each.shape[0]
    return {"each": left[:, :n].reshape(-1, *each.shape[1:]), "groups": left[:, n:]}


def _with_exam(train: Callable, examine: Callable) -> Callable:
    def both(state: Any) -> tuple[Any, dict[str, Array]]:
        state, metrics = train(state)
        return state, examine(state.params) | {"training_loss": metrics["loss"]}

    return both


def _dataset(
    spec: Spec,
    steps: np.ndarray,
    curves: dict[str, dict[str, np.ndarray]],
    ablated: dict[str, dict[str, np.ndarray]],
) -> xr.Dataset:
    def stack(name: str) -> np.ndarray:
        return np.stack([arm[name] for arm in curves.values()])

    def stack_heads(name: str, found: dict[str, dict[str, np.ndarray]] = curves) -> np.ndarray:
        arrays = [arm[name] for arm in found.values()]
        most = max(a.shape[-2] for a in arrays)
        widths = [[*[(0, 0)] * (a.ndim - 2), (0, most - a.shape[-2]), (0, 0)] for a in arrays]
        padded = [np.pad(a, w, constant_values=np.nan) for a, w in zip(arrays, widths, strict=True)]
        return np.stack(padded)

    over, each_arm = ("arm", "step", "member"), ("arm", "member")
    by_position = stack("loss_by_position")
    groups = np.stack([arm["groups"] for arm in ablated.values()])
    data = xr.Dataset(
        {
            "loss": (over, stack("loss")),
            "in_context": (over, stack("in_context")),
            "loss_by_position": ((*over, "position"), by_position),
            "slope": ((*over, "position"), np.asarray(loss_slope(jnp.asarray(by_position)))),
            "prefix": ((*over, "layer", "head"), stack_heads("prefix")),
            "previous": ((*over, "layer", "head"), stack_heads("previous")),
            "ablated": ((*each_arm, "ablation", "layer", "head"), stack_heads("each", ablated)),
            "ablated_group": ((*each_arm, "ablation", "group"), groups),
            "alive": (each_arm, stack("alive")),
            "chance": float(curves["2 layers"]["chance"][0, 0]),
        },
        coords={
            "arm": list(curves),
            "step": steps,
            "ablation": list(KINDS),
            "group": list(GROUPS),
            "index": ("position", np.arange(1, by_position.shape[-1] + 1)),
        },
    )
    data["best_prefix"] = data.prefix.max(["layer", "head"])
    data["best_previous"] = data.previous.isel(layer=0).max("head")

    def each(rule: Callable, name: str, *rest: float) -> Any:
        curve = data[name].transpose("arm", "member", "step").values
        return jax.tree.map(np.asarray, rule(jnp.asarray(steps), jnp.asarray(curve), *rest))

    for name in ("in_context", "loss", "best_prefix", "best_previous"):
        window = each(change_window, name)
        for part, value in window._asdict().items():
            data[f"{name}_{part}"] = (each_arm, value)
    stretch = spec.optim.steps / 6
    jump = each(steepest_stretch, "in_context", stretch)
    data["jump"], data["jump_start"] = (each_arm, jump.fall), (each_arm, jump.start)
    data["jump_end"] = data.jump_start + stretch
    data["bump"] = (each_arm, each(speed_up, "loss", stretch))
    # By the longest period every text repeats; before that, a shorter context may do.
    data["every_text_repeats"] = spec.task.max_period
    there = data.slope.isel(position=spec.task.max_period - 1)
    at_start = there.interp(step=data.jump_start)
    data["slope_before"] = at_start.drop_vars(["step", "index"])
    data["slope_after"] = there.isel(step=-1, drop=True).drop_vars("index")
    return data
