"""The additivity gap on text: the same heads with and without their denominators, each at its best.

Both families have the weights and factors of `circuits.additive_heads`; that of the destination,
which stands in the place of the denominator, cancels in the softmax. Members of both start from
equal weights and see the same windows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.circuits.skip_trigrams import (
    AdditiveHeads,
    additive_heads_logits,
    counted,
    normalised_heads_logits,
)
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_at_least, require_divides, require_positive
from circuitax.kit.measured_training import measured_training
from circuitax.lab.lab import Lab
from circuitax.models.transformer import init as init_model
from circuitax.training.language import module_losses, train_on_text
from circuitax.training.optim import OptimSpec


@dataclass(frozen=True)
class AdditiveTask:
    """Training of both families from their initialisation.

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
    """A `LanguageModule`: one layer of a family, which starts with the weights of a fresh model."""

    family: str
    spec: TransformerSpec

    @property
    def start_token(self) -> int | None:
        """The id that training puts in front of every text."""
        return self.spec.start_token

    @property
    def n_ctx(self) -> int | None:
        """The longest text that it can read."""
        return self.spec.n_ctx

    def init(self, rngs: Key[Array, ""], *args: Any) -> dict[str, AdditiveHeads]:
        """Fresh weights, with the number of sources in place of each denominator."""
        return {"params": counted(init_model(rngs, self.spec))}

    def apply(
        self, variables: dict[str, AdditiveHeads], texts: Int[Array, "batch n_ctx"]
    ) -> Float[Array, "batch n_ctx d_vocab"]:
        """The logits of a batch of texts."""
        return jax.vmap(partial(LOGITS[self.family], variables["params"]))(texts)


LOGITS: dict[str, Callable[[AdditiveHeads, Array], Array]] = {
    "softmax": normalised_heads_logits,
    "sum": additive_heads_logits,
}


def text_gap(
    task: AdditiveTask,
    spec: TransformerSpec,
    tokens: np.ndarray,
    curve: Array,
    exam: Array,
    key: Key[Array, ""],
    lab: Lab,
) -> dict[str, np.ndarray]:
    """Held-out losses of both families: ``[look, pair]`` along training, ``[pair]`` at its end.

    Args:
        task: Recipe.
        spec: Sizes of the one-layer models.
        tokens: The training text.
        curve: Held-out windows that are measured along training.
        exam: Held-out windows of the last loss; NaN where a member diverged.
        key: Initialisations and data, the same of both families.
        lab: Of the experiment.
    """
    found: dict[str, np.ndarray] = {}
    for family, factor in (("softmax", 1.0), ("sum", task.sum_rate)):
        module = OneLayer(family, spec)
        state, train = train_on_text(
            key,
            module,
            task.optim,
            tokens,
            batch=task.batch,
            length=spec.n_ctx or 0,  # set, or there would be no factors of positions
            seeds=task.seeds,
            chunk=task.chunk,
            learning_rate=factor * task.optim.learning_rate,
            mesh=lab.mesh,
        )
        losses = jax.jit(partial(_losses, module))
        trained = measured_training(
            lab,
            f"text-{family}",
            state,
            train,
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


def _losses(module: OneLayer, members: AdditiveHeads, texts: Array) -> Array:
    # One text of one member at a time: the logits of all would take gigabytes.
    def of_member(heads: AdditiveHeads) -> Array:
        return jax.lax.map(lambda text: module_losses(module, heads, text[None]).mean(), texts)

    return jnp.mean(jax.lax.map(of_member, members), axis=1)
