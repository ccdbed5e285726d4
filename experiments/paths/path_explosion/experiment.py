"""The number of paths multiplies with depth, but the shortest paths explain most of the loss.

The task needs depth: texts ask where one, two and three steps of a map lead that each text draws
anew (`data.chained_maps`), and one layer can look up one step only.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from circuitax.circuits.losses import cumulative, selection_losses
from circuitax.circuits.paths.expansion import all_paths, expand, n_paths, order_streams
from circuitax.circuits.paths.frozen import frozen_model
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import Chained, ChainedMapSource
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import language_arm
from circuitax.kit.members import drawn_by_each, each_with_own, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.optim import OptimSpec
from experiments.paths.path_explosion.path_ledger import rank, ranks


@dataclass(frozen=True)
class Spec:
    """One recipe for every depth.

    Attributes:
        model: Sizes; the number of layers is set by each arm.
        task: Texts to train on; those to measure on are drawn alike.
        optim: Optimizer.
        max_depth: Depths 1 to this many layers.
        seeds: Members of each depth, each with its own initialisation and data.
        texts: Texts to measure on, on the answers; each seed has its own, the same at all depths.
        ledgers: How many of them to rank paths on, for every member.
        chunk: Steps between two looks.
    """

    model: TransformerSpec = field(default_factory=TransformerSpec)
    task: ChainedMapSource = field(default_factory=ChainedMapSource)
    optim: OptimSpec = field(default_factory=OptimSpec)
    max_depth: Annotated[int, "[2, 8]"] = 6
    seeds: Positive = 8
    texts: Positive = 32
    ledgers: Annotated[int, "[1, texts]"] = 4
    chunk: Annotated[int, "divides optim.steps"] = 100

    def __post_init__(self) -> None:
        if self.task.n_steps < 3:
            raise ValueError(
                f"task.n_steps={self.task.n_steps} must be at least 3: rows compare three"
            )


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train models of every depth, expand them into paths, and measure the loss of each order."""
    source = replace(spec.task, batch=spec.texts)
    exams = drawn_by_each(source.sample, derive(key, "evaluation"), spec.seeds)
    examine = each_with_own(partial(measure, spec), exams)
    arms, divergences = {}, {}
    for depth in range(1, spec.max_depth + 1):
        sizes = replace(spec.model, n_layers=depth)
        trained = language_arm(
            lab,
            f"depth-{depth}",
            derive(key, f"{depth} layers"),
            sizes,
            spec.task,
            spec.optim,
            seeds=spec.seeds,
            every=spec.chunk,
        )
        models = trained.models
        found = lab.stage(f"terms-{depth}", examine, models)
        arms[depth] = found | {"alive": trained.alive}
        divergences[depth] = trained.divergence
    texts = exams.tokens[:, : spec.ledgers]
    found = lab.stage("ledger", rank, models, trained.state.alive, texts)
    last = {"top": ("place",), "top_path": ("place",), "all_sizes": ("rank",)}
    ledgers = {name: (("member", "text", *last.get(name, ())), x) for name, x in found.items()}
    return xr.Dataset(
        _arrays(spec, arms) | ledgers,
        coords={
            "depth": list(arms),
            "rank": ranks(n_paths(models.n_layers, models.n_heads)),
            "steps": 1 + np.arange(spec.task.n_steps),
        },
        attrs={"divergence": divergences},
    )


def measure(spec: Spec, model: Model, exam: Chained) -> dict[str, Array]:
    """Losses on answers by order and by steps, and how well paths close."""
    questions = spec.task.questions

    def one(text: Array) -> dict[str, Array]:
        found = run_model(model, text)
        orders = order_streams(frozen_model(found))
        losses = selection_losses(found, orders, cumulative(model.n_layers + 1))[:, questions]
        return {"loss": losses.mean(axis=1), "answer_loss": losses[-1]}

    each = jax.lax.map(one, exam.tokens)
    answers = each.pop("answer_loss")
    asked = jax.nn.one_hot(exam.steps - 1, spec.task.n_steps, dtype=answers.dtype)
    by_steps = jnp.einsum("tq,tqs->s", answers, asked) / asked.sum(axis=(0, 1))
    first = run_model(model, exam.tokens[0])
    closing = jnp.abs(expand(first).remainder).max() / jnp.abs(first.logits).max()
    return {
        "loss": each["loss"].mean(axis=0),
        "loss_by_steps": by_steps,
        "remainder": closing,
    }


def _arrays(spec: Spec, arms: dict[int, dict[str, np.ndarray]]) -> dict[str, Any]:
    """Arrays over depth; a shallower model gets NaN for the orders that it lacks."""

    def stack(name: str, axis: int | None = None) -> np.ndarray:
        return stack_named(arms.values(), name, axis)

    heads, orders = spec.model.n_heads, range(spec.max_depth + 1)
    formula = np.array([[n_paths(depth, heads, k) for k in orders] for depth in arms])
    lengths = [np.array([len(path) for path in all_paths(depth, heads)]) for depth in arms]
    listed = np.array([[(length == k).sum() for k in orders] for length in lengths])
    return {
        "count": (("depth", "order"), formula),
        "enumerated": (("depth", "order"), listed),
        "loss": (("depth", "member", "order"), stack("loss", 1)),
        "loss_by_steps": (("depth", "member", "steps"), stack("loss_by_steps")),
        "remainder": (("depth", "member"), stack("remainder")),
        "alive": (("depth", "member"), stack("alive")),
        "guess": ((), np.log(spec.task.n_symbols)),
    }
