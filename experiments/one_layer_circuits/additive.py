"""The additivity gap on text: heads with and without a softmax, trained on in the same way."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from circuitax.circuits.additive_heads import additive_heads_logits, start_from, tables_from
from circuitax.circuits.additivity import additive_logits
from circuitax.circuits.in_context import token_losses
from circuitax.data.windows import WindowSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.model import Model
from circuitax.kit.checks import require_at_least, require_divides
from circuitax.kit.measured_training import measured_training
from circuitax.kit.ragged import padded
from circuitax.lab.lab import Lab
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.optim import Optimizer, OptimSpec, Schedule

LOOK_EVERY = 4  # held-out windows between two that the curves are measured on


@dataclass(frozen=True)
class AdditiveTask:
    """How the three arms go on from a trained model: same batches, same recipe, same steps.

    Attributes:
        members: Models that go on; the free tables start from the first only.
        batch: Windows a step.
        steps: Steps of each arm.
        learning_rate: Peak rate of Adam, reached in one chunk; a cosine takes it to 2 %.
        chunk: Steps between two looks; must divide ``steps``.
        average: Windows that the denominators are averaged over at the start.
    """

    members: int = 5
    batch: int = 16
    steps: int = 480
    learning_rate: float = 1e-2
    chunk: int = 40
    average: int = 256

    def __post_init__(self) -> None:
        require_at_least(self, 1, "members", "batch", "steps", "average")
        require_divides(self, "chunk", "steps")
        self.optim()  # which refuses a rate that is none

    def optim(self) -> OptimSpec:
        """Adam without decay; gradients are clipped, since nothing normalises the gates."""
        return OptimSpec(
            name=Optimizer.adam,
            learning_rate=self.learning_rate,
            weight_decay=0.0,
            schedule=Schedule.cosine,
            end_fraction=0.02,
            warmup_steps=self.chunk,
            steps=self.steps,
            clip_norm=1.0,
        )


@dataclass(frozen=True)
class Continued:
    """A `Problem`: next-token loss of any model of one text, from given parameters (``hyper``)."""

    arm: str
    source: WindowSource

    def init(self, key: Key[Array, ""], hyper: PyTree) -> PyTree:
        """Where training goes on from."""
        return hyper

    def batch(self, key: Key[Array, ""], step: Array) -> Array:
        """The texts of one step."""
        return self.source(at_index(key, step))

    def loss(self, params: PyTree, batch: Array, hyper: PyTree) -> Array:
        """The scalar that is minimised."""
        return jnp.mean(self.losses(params, batch))

    def losses(self, params: PyTree, texts: Array) -> Array:
        """Every prediction of every text, nats."""
        logits = jax.vmap(lambda text: LOGITS[self.arm](params, text))(texts)
        return token_losses(logits, texts)

    def mean_losses(self, members: PyTree, texts: Array) -> Array:
        """Mean loss of each member over some texts; one text of one member at a time."""

        def of_member(params: PyTree) -> Array:
            return jax.lax.map(lambda text: self.losses(params, text[None]).mean(), texts)

        return jax.lax.map(of_member, members).mean(axis=1)


LOGITS: dict[str, Callable[[PyTree, Array], Array]] = {
    "softmax": lambda model, text: forward(model, text)[0],
    "sum": additive_heads_logits,
    "tables": lambda tables, text: additive_logits(
        tables._replace(gate=jnp.exp(tables.gate)), text
    ),
}


class Starts(NamedTuple):
    """Parameters of each arm before its first step, with an axis of members."""

    softmax: PyTree
    sum: PyTree
    tables: PyTree


def starts(models: Model, task: AdditiveTask, texts: Array) -> Starts:
    """The trained models, the same without their denominators, and those as free tables."""
    chosen = jax.tree.map(lambda leaf: leaf[: task.members], models)
    sums = jax.jit(jax.vmap(start_from, (0, None)))(chosen, texts)
    first = jax.tree.map(lambda leaf: leaf[:1], chosen)
    tables = jax.jit(jax.vmap(tables_from, (0, None)))(first, texts)
    return Starts(chosen, sums, tables)


def text_gap(
    models: Model,
    task: AdditiveTask,
    source: WindowSource,
    held_out: Array,
    key: Key[Array, ""],
    lab: Lab,
) -> dict[str, np.ndarray]:
    """Held-out loss of each arm while it goes on, ``[step, member]``, from the start on."""
    texts = WindowSource(task.average, source.length, source.tokens)
    begin = starts(models, task, texts(derive(key, "average")))
    found: dict[str, np.ndarray] = {}
    for arm, params in begin._asdict().items():
        problem = Continued(arm, source)
        # One data key for all arms: the batches of a member are the same in each.
        members = new_members(derive(key, "batches"), task.learning_rate, params)
        plan = Plan(problem, task.optim(), task.chunk, mesh=lab.mesh)
        losses = jax.jit(problem.mean_losses)
        at_start = losses(params, held_out)
        trained = measured_training(
            lab,
            f"text-{arm}",
            init(plan, members),
            advance(plan, members),
            steps=task.steps,
            every=task.chunk,
            measure=partial(_curve, losses, held_out[::LOOK_EVERY]),
        )
        at_end = np.where(trained.alive, losses(trained.models, held_out), np.nan)
        ends = {"start": at_start, "end": at_end, "curve": trained.curves["loss"]}
        found |= {f"{arm}_{name}": padded(values, task.members) for name, values in ends.items()}
    return found


def _curve(losses: Callable[..., Array], texts: Array, params: PyTree) -> dict[str, Array]:
    return {"loss": losses(params, texts)}
