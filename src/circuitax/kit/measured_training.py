"""Measured training: train a chunk, measure every member, save weights at some steps, repeat."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.kept_models import keep_model
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, divergence, init, new_members
from circuitax.training.language import Edit, NextToken, Penalty, Source
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import TrainState

TRAINING_LOSS = "training_loss"


@dataclass(frozen=True)
class Trained:
    """Results of a training."""

    state: TrainState
    models: PyTree
    steps: np.ndarray
    curves: dict[str, np.ndarray]
    training_loss: np.ndarray

    @property
    def alive(self) -> np.ndarray:
        """False for members that diverged."""
        return np.asarray(self.state.alive)

    @property
    def divergence(self) -> dict[str, Any]:
        """Diverged members, for the notes of a record."""
        return divergence(self.state.alive, self.state.step)


def measured_training(
    lab: Lab,
    name: str,
    state: TrainState,
    train: Callable[[TrainState], tuple[TrainState, dict[str, Array]]],
    *,
    steps: int,
    every: int,
    measure: Callable[[PyTree], dict[str, Array]] | None = None,
    as_models: Callable[[PyTree], PyTree] = lambda params: params,
    at_start: bool = True,
    keep_at: Collection[int] = (),
    keep_as: str = "",
    show: str = "loss",
) -> Trained:
    """Train an ensemble chunk by chunk, measure after each, and save weights at some steps."""
    if every < 1 or steps < 1 or steps % every:
        raise ValueError(f"every={every} must divide steps={steps}, both at least 1")
    began = _step(state)
    after = began + every * np.arange(1, steps // every + 1)
    seen = np.concatenate([[began], after]) if at_start else after
    if missed := sorted(set(keep_at) - set(seen.tolist())):
        raise ValueError(f"keep_at names {missed}, training is at {every} steps after another")
    model = keep_as or name
    if at_start and began in keep_at:
        keep_model(lab, model, began, as_models(state.params))
    looked = measure(as_models(state.params)) if measure is not None and at_start else {}
    first = {key: np.asarray(value) for key, value in looked.items()}

    def advance(state: TrainState) -> tuple[TrainState, dict[str, Array]]:
        state, metrics = train(state)
        step = _step(state)
        models = as_models(state.params)
        if step in keep_at:
            keep_model(lab, model, step, models)
        found = {} if measure is None else measure(models)
        return state, {**found, TRAINING_LOSS: metrics["loss"]}

    shown = TRAINING_LOSS if measure is None else show
    state, rows = lab.loop(name, state, advance, steps // every, show=shown)
    training_loss = rows.pop(TRAINING_LOSS)
    curves = {
        key: np.concatenate([first[key][None], later]) if key in first else later
        for key, later in rows.items()
    }
    return Trained(state, as_models(state.params), seen, curves, training_loss)


def _step(state: TrainState) -> int:
    # On the host: JAX would compile the maximum for every number of members.
    return int(np.max(np.asarray(state.step)))


def joined(first: Trained, second: Trained) -> Trained:
    """Two consecutive trainings of the same members, as one."""
    if second.steps[0] <= first.steps[-1] or first.curves.keys() != second.curves.keys():
        raise ValueError(
            f"second begins at step {second.steps[0]} with {sorted(second.curves)}, must go on "
            f"after step {first.steps[-1]} with {sorted(first.curves)}"
        )
    curves = {
        name: np.concatenate([first.curves[name], second.curves[name]]) for name in first.curves
    }
    losses = np.concatenate([first.training_loss, second.training_loss])
    steps = np.concatenate([first.steps, second.steps])
    return Trained(second.state, second.models, steps, curves, losses)


def chunk_size(steps: int, most: int = 50) -> int:
    """Steps of a chunk: the largest allowed divisor among 1, 2, 5, 10, 20, 50, 100, ..."""
    sizes = [digit * 10**power for power in range(len(str(most))) for digit in (1, 2, 5)]
    return max(size for size in sizes if size <= most and steps % size == 0)


def language_arm(
    lab: Lab,
    name: str,
    key: Key[Array, ""],
    sizes: TransformerSpec,
    source: Source,
    optim: OptimSpec,
    *,
    seeds: int,
    every: int,
    measure: Callable[[PyTree], dict[str, Array]] | None = None,
    edit: Edit | None = None,
    penalty: Penalty | None = None,
    hyper: Array | None = None,
) -> Trained:
    """Train transformers of one size to predict the next token, and measure them along the way.

    ``edit`` and ``penalty`` are those of `NextToken`, ``hyper`` their numbers, one for each seed.
    """
    plan = Plan(NextToken(Transformer(sizes), source, edit, penalty), optim, every, mesh=lab.mesh)
    members = new_members(key, optim.learning_rate, jnp.zeros(seeds) if hyper is None else hyper)
    return measured_training(
        lab,
        name,
        init(plan, members),
        advance(plan, members),
        steps=optim.steps,
        every=every,
        measure=measure,
        as_models=partial(model_from_params, spec=sizes),
    )
