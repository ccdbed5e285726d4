"""The additivity gap on text: the same heads with and without their denominators, each at its best.

Both families have the weights and factors of `circuits.additive_heads`; that of the destination,
which stands in the place of the denominator, cancels in the softmax. Members of both start from
equal weights and see the same windows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from circuitax.circuits.additive_heads import (
    AdditiveHeads,
    additive_heads_logits,
    counted,
    normalised_heads_logits,
)
from circuitax.circuits.in_context import token_losses
from circuitax.data.windows import WindowSource
from circuitax.kernel.keys import at_index
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.tokens import behind_start
from circuitax.kit.checks import require_at_least, require_divides, require_positive
from circuitax.kit.measured_training import measured_training
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init_model
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.optim import OptimSpec


@dataclass(frozen=True)
class AdditiveTask:
    """How both families are trained from their initialisation.

    Attributes:
        optim: Optimizer of both.
        sum_rate: Peak rate of sums over that of ``optim``, which the softmax has.
        batch: Windows a step.
        seeds: Members of each family, each with its own initialisation and data.
        chunk: Steps between two looks; must divide ``optim.steps``.
    """

    optim: OptimSpec = field(default_factory=OptimSpec)
    sum_rate: float = 1.0
    batch: int = 32
    seeds: int = 8
    chunk: int = 100

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch", "seeds", "chunk")
        require_positive(self, "sum_rate")
        require_divides(self, "chunk", "optim.steps")


@dataclass(frozen=True)
class OneLayer:
    """A `Problem`: next-token loss of one layer of a family, nats per token.

    It starts with the weights of a fresh model of the spec. ``hyper`` is not used.
    """

    family: str
    spec: TransformerSpec
    source: WindowSource

    def init(self, key: Key[Array, ""], hyper: PyTree) -> AdditiveHeads:
        """Fresh weights, with the number of sources in place of each denominator."""
        return counted(init_model(key, self.spec))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, "batch n_ctx"]:
        """The texts of one step."""
        return behind_start(self.source(at_index(key, step)), self.spec.start_token)

    def loss(self, params: AdditiveHeads, batch: Array, hyper: PyTree) -> Array:
        """The scalar that is minimised."""
        logits = jax.vmap(partial(LOGITS[self.family], params))(batch)
        return jnp.mean(token_losses(logits, batch))


LOGITS: dict[str, Callable[[AdditiveHeads, Array], Array]] = {
    "softmax": normalised_heads_logits,
    "sum": additive_heads_logits,
}


def text_gap(
    task: AdditiveTask,
    spec: TransformerSpec,
    source: WindowSource,
    curve: Array,
    exam: Array,
    key: Key[Array, ""],
    lab: Lab,
) -> dict[str, np.ndarray]:
    """Held-out losses of both families: ``[look, pair]`` along training, ``[pair]`` at its end.

    Args:
        task: Recipe.
        spec: Sizes of the one-layer models.
        source: Windows of the training text.
        curve: Held-out windows that are measured along training.
        exam: Held-out windows of the last loss; NaN where a member diverged.
        key: Initialisations and data, the same of both families.
        lab: Of the experiment.
    """
    found: dict[str, np.ndarray] = {}
    for family, factor in (("softmax", 1.0), ("sum", task.sum_rate)):
        problem = OneLayer(family, spec, source)
        plan = Plan(problem, task.optim, task.chunk, mesh=lab.mesh)
        members = new_members(key, factor * task.optim.learning_rate, jnp.zeros(task.seeds))
        losses = jax.jit(partial(_losses, problem))
        trained = measured_training(
            lab,
            f"text-{family}",
            init(plan, members),
            advance(plan, members),
            steps=task.optim.steps,
            every=task.chunk,
            measure=partial(_measure, losses, curve),
        )
        found[f"{family}_curve"] = trained.curves["loss"]
        ends = np.asarray(losses(trained.models, exam))
        found[f"{family}_end"] = np.where(trained.alive, ends, np.nan)
    return found


def _measure(losses: Callable[..., Array], texts: Array, members: PyTree) -> dict[str, Array]:
    return {"loss": losses(members, texts)}


def _losses(problem: OneLayer, members: AdditiveHeads, texts: Array) -> Array:
    # One text of one member at a time: the logits of all would take gigabytes.
    def of_member(heads: AdditiveHeads) -> Array:
        return jax.lax.map(lambda text: problem.loss(heads, text[None], ()), texts).mean()

    return jax.lax.map(of_member, members)
