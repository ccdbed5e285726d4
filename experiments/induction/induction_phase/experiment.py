"""Induction heads form in a phase change, with two layers or smeared keys, not with one layer."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.losses import change_window, steepest_stretch
from circuitax.circuits.patching import Ablation, ablated_metrics, each_component
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import forward, next_token_losses
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import language_arm
from circuitax.kit.members import drawn_by_each, each_with_own, file_name_of, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.language import text_losses
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.head_roles import PREFIX_SCORE
from experiments.induction.shared.training_weights import (
    WEIGHTS,
    patterns_of_best,
    weight_changes,
    with_weights,
)
from experiments.induction.shared.trajectories import own_planes
from experiments.induction.shared.two_layers import in_context, require_readable

# Layers, and whether keys are smeared.
ARMS = {
    "1 layer": (1, False),
    "1 layer, smeared": (1, True),
    "2 layers": (2, False),
    "2 layers, smeared": (2, True),
}
# Texts whose single tokens span the space in which trajectories of training are drawn.
TRAJECTORY_TEXTS = 16
# How an ablation is done, and which heads are taken together.
KINDS = ("patterns held", "all reacts")
GROUPS = ("prefix-matching heads", "all others")
# The arm whose weights are read at every measured step.
FOLLOWED = "2 layers"


@dataclass(frozen=True)
class Spec:
    """One recipe for all four arms.

    Attributes:
        model: Sizes; layers and smeared keys are set by each arm.
        task: Texts to train on; those to measure on have the same sizes and distinct symbols.
        optim: Optimizer.
        seeds: Members of each arm, each with its own initialisation and data.
        measure_every: Steps between two measurements.
        texts: Texts to measure on; each seed has its own, the same in all arms.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: RepeatedSource = field(default_factory=RepeatedSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    seeds: Positive = 16
    measure_every: Annotated[int, "divides optim.steps"] = 20
    texts: Positive = 64

    def __post_init__(self) -> None:
        require_readable(self.model, self.task)
        if self.task.min_period < 2 or self.task.max_period > self.task.length - 2:
            raise ValueError(
                f"task.min_period={self.task.min_period} and max_period={self.task.max_period} "
                "must leave tokens before and after for the in-context score"
            )


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train the four arms and measure every curve of every seed."""
    source = replace(spec.task, batch=spec.texts, distinct=True)
    exams = drawn_by_each(source, derive(key, "evaluation"), spec.seeds)
    examine = each_with_own(partial(measure, task=spec.task), exams)
    take_out = each_with_own(partial(without_heads, task=spec.task), exams)
    found, divergences = {}, {}
    for arm, (n_layers, smeared) in ARMS.items():
        sizes = replace(spec.model, n_layers=n_layers, smeared_keys=smeared)
        trained = language_arm(
            lab,
            file_name_of(arm),
            derive(key, arm),
            sizes,
            spec.task,
            spec.optim,
            seeds=spec.seeds,
            every=spec.measure_every,
            measure=with_weights(examine) if arm == FOLLOWED else examine,
        )
        found[arm] = trained.curves | take_out(trained.models) | {"alive": trained.alive}
        divergences[arm] = trained.divergence
        if arm == FOLLOWED:
            models, curves = trained.models, trained.curves
    period = spec.task.min_period
    shown = replace(spec.task, batch=1, length=2 * period, max_period=period, distinct=True)
    more = weight_changes(curves["weights"], models, exams)
    more |= patterns_of_best(models, curves, shown(derive(key, "shown"))[0])
    data = _dataset(spec, trained.steps, found).assign(more).assign_coords(weight=list(WEIGHTS))
    return data.assign_attrs(divergence=divergences, prefix_score=PREFIX_SCORE)


def measure(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """Scores of one member, with its losses on single tokens of some texts."""
    scores = induction_scores(model, texts)
    losses = scores.loss_by_position
    return scores._asdict() | {
        "loss": losses.mean(),
        "in_context": in_context(task, losses),
        "token_loss": text_losses(model, texts[:TRAJECTORY_TEXTS]).ravel(),
    }


def without_heads(model: Model, texts: Array, task: RepeatedSource) -> dict[str, Array]:
    """In-context score of one member without each head, and without two groups of heads.

    "Patterns held" is the paper's pattern-preserving ablation: attention patterns stay as they
    were, and only what the head writes is gone.
    """
    scores = induction_scores(model, texts)
    matching = (scores.prefix >= PREFIX_SCORE).astype(float)
    each = each_component(model).heads
    cells = Ablation(jnp.concatenate([each, jnp.stack([matching, 1 - matching])]))

    def one(text: Array) -> Array:
        def losses(logits: Array) -> Array:
            return next_token_losses(logits, text)

        kept = (forward(model, text)[1], None)
        return jnp.stack(
            [ablated_metrics(model, text, cells, losses, preserved=trace) for trace in kept]
        )

    left = in_context(task, jax.vmap(one)(texts).mean(axis=0))
    n = each.shape[0]
    return {"each": left[:, :n].reshape(-1, *each.shape[1:]), "groups": left[:, n:]}


def _dataset(spec: Spec, steps: np.ndarray, found: dict[str, dict[str, Any]]) -> xr.Dataset:
    # One array of all arms; those with fewer layers get NaN for the layers they lack.
    stack = partial(stack_named, found.values())
    over, each_arm = ("arm", "step", "member"), ("arm", "member")
    by_position = stack("loss_by_position")
    data = xr.Dataset(
        {
            "loss": (over, stack("loss")),
            "in_context": (over, stack("in_context")),
            # Most of the record: to 1/1024 nat.
            "loss_by_position": ((*over, "position"), np.round(by_position * 1024) / 1024),
            "prefix": ((*over, "layer", "head"), stack("prefix", -2)),
            "previous": ((*over, "layer", "head"), stack("previous", -2)),
            "ablated": ((*each_arm, "ablation", "layer", "head"), stack("each", -2)),
            "ablated_group": ((*each_arm, "ablation", "group"), stack("groups")),
            "alive": (each_arm, stack("alive")),
            "chance": float(found["2 layers"]["chance"][0].mean()),
        },
        coords={
            "arm": list(found),
            "step": steps,
            "ablation": list(KINDS),
            "group": list(GROUPS),
            "index": ("position", np.arange(1, by_position.shape[-1] + 1)),
        },
    )
    data["trajectory"] = ((*over, "component"), own_planes(stack("token_loss")))
    data["best_prefix"] = data.prefix.max(["layer", "head"])
    data["best_previous"] = data.previous.isel(layer=0).max("head")

    def of_each(name: str) -> tuple[Array, Array]:
        return jnp.asarray(steps), jnp.asarray(data[name].transpose(*each_arm, "step").values)

    for name in ("in_context", "best_prefix"):
        data[f"{name}_middle"] = (each_arm, np.asarray(change_window(*of_each(name)).middle))
    stretch = spec.optim.steps / 6
    start = steepest_stretch(*of_each("in_context"), stretch).start
    data["jump_start"] = (each_arm, np.asarray(start))
    data["jump_end"] = data.jump_start + stretch
    # By the longest period every text repeats; before that, a shorter context may do.
    data["every_text_repeats"] = spec.task.max_period
    data["first_repeat"] = spec.task.min_period
    return data
