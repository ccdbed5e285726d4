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

from circuitax.circuits.ledger.ledger import head_ledger
from circuitax.circuits.losses import cumulative, selection_losses
from circuitax.circuits.paths.expansion import (
    all_paths,
    expand,
    n_paths,
    order_streams,
    path_streams,
)
from circuitax.circuits.paths.frozen import FrozenModel, frozen_model
from circuitax.config.ranges import Positive
from circuitax.data.synthetic import ChainedMapSource
from circuitax.kernel.keys import derive
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import language_arm
from circuitax.kit.members import drawn_by_each, each_with_own, stack_named
from circuitax.lab.lab import Lab
from circuitax.training.optim import OptimSpec

TOP_PATHS = 20  # that the ledger lists


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


def run(spec: Spec, key: jax.Array, lab: Lab) -> xr.Dataset:
    """Train models of every depth, expand them into paths, and measure the loss of each order."""
    source = replace(spec.task, batch=spec.texts)
    exams = drawn_by_each(source.sample, derive(key, "evaluation"), spec.seeds)
    examine = each_with_own(partial(measure, spec), exams.tokens)
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
    gaps = lab.stage("ledger", ledger_gaps, models, trained.state.alive, texts)
    return xr.Dataset(
        _arrays(spec, arms) | {"brute_force_gap": (("member", "text"), gaps)},
        coords={"depth": list(arms)},
        attrs={"divergence": divergences},
    )


def measure(spec: Spec, model: Model, texts: Array) -> dict[str, Array]:
    """Losses on answers by order, and how well paths close."""
    questions = spec.task.questions

    def one(text: Array) -> Array:
        found = run_model(model, text)
        orders = order_streams(frozen_model(found))
        losses = selection_losses(found, orders, cumulative(model.n_layers + 1))[:, questions]
        return losses.mean(axis=1)

    first = run_model(model, texts[0])
    closing = jnp.abs(expand(first).remainder).max() / jnp.abs(first.logits).max()
    return {"loss": jax.lax.map(one, texts).mean(axis=0), "remainder": closing}


def ledger_gaps(models: Model, alive: Array, texts: Array) -> np.ndarray:
    """Difference of the ledger's largest paths from all paths, computed one by one; relative.

    Of the logit of the last token less the mean logit, at the position before it, ``[member,
    text]``; NaN for members that diverged.
    """
    position = texts.shape[-1] - 2
    places = min(TOP_PATHS, n_paths(models.n_layers, models.n_heads))

    @jax.jit
    def all_of(model: Model, text: Array) -> tuple[FrozenModel, Array, Array]:
        frozen = frozen_model(run_model(model, text))
        direction = frozen.read_out.W_U[:, text[-1]] - frozen.read_out.W_U.mean(axis=1)
        scale = frozen.read_out.scale
        along = direction if scale is None else direction / scale[position]
        return frozen, direction, path_streams(frozen)[:, position] @ along

    def gap(model: Model, text: Array) -> float:
        frozen, direction, every = all_of(model, text)
        sizes = np.sort(np.abs(np.asarray(every)))[::-1]
        found = head_ledger(frozen, position, direction, k=places)
        return float(np.abs(np.abs(found.values) - sizes[:places]).max() / sizes[0])

    gaps = np.full(texts.shape[:2], np.nan)
    for i in np.flatnonzero(alive):
        gaps[i] = [gap(models[int(i)], text) for text in texts[i]]
    return gaps


def _arrays(spec: Spec, arms: dict[int, dict[str, np.ndarray]]) -> dict[str, Any]:
    """Arrays over depth; a shallower model gets NaN for the orders that it lacks."""
    stack = partial(stack_named, arms.values())
    heads, orders = spec.model.n_heads, range(spec.max_depth + 1)
    formula = np.array([[n_paths(depth, heads, k) for k in orders] for depth in arms])
    lengths = [np.array([len(path) for path in all_paths(depth, heads)]) for depth in arms]
    listed = np.array([[(length == k).sum() for k in orders] for length in lengths])
    return {
        "count": (("depth", "order"), formula),
        "enumerated": (("depth", "order"), listed),
        "loss": (("depth", "member", "order"), stack("loss", 1)),
        "remainder": (("depth", "member"), stack("remainder")),
        "alive": (("depth", "member"), stack("alive")),
        "guess": ((), np.log(spec.task.n_symbols)),
    }
