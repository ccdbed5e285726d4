"""What one softmax head computes that no sum over sources does: on text, and on "a unless b".

On text the same heads are trained with and without their denominators, from equal weights on the
same windows; see `circuits.additive_heads`. "a unless b" is `UnlessSource`: attention that goes to
``b`` is taken from ``a``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.circuits.skip_trigrams import (
    AdditiveHeads,
    additive_heads_logits,
    additive_logits,
    counted,
    fit,
    init_full,
    normalised_heads_logits,
)
from circuitax.config.ranges import Positive, PositiveNumber
from circuitax.data.synthetic import OTHER, OUT, UNLESS, UnlessSource
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.measured_training import measured_training
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.models.transformer import init as init_model
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken, module_losses
from circuitax.training.optim import OptimSpec
from experiments.one_layer.shared.text_training import text_arm


@dataclass(frozen=True)
class AdditiveTask:
    """Training of both families from their initialisation.

    Attributes:
        optim: Optimizer of both.
        sum_rate: Peak rate of sums over that of ``optim``, which the softmax has.
        batch: Windows a step.
        seeds: Members of each family, each with its own initialisation and data.
        chunk: Steps between two looks.
    """

    optim: OptimSpec = field(default_factory=OptimSpec)
    sum_rate: PositiveNumber = 1.0
    batch: Positive = 32
    seeds: Positive = 8
    chunk: Annotated[int, "divides optim.steps"] = 100


@dataclass(frozen=True)
class OneLayer:
    """A `LanguageModule`: one layer of a family, which starts with the weights of a fresh model."""

    family: str
    spec: TransformerSpec

    @property
    def start_token(self) -> int | None:
        """The id that training puts in front of every text."""
        return self.spec.start_token

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
    exam: Array,
    key: Key[Array, ""],
    lab: Lab,
) -> dict[str, np.ndarray]:
    """Held-out losses of both families after training, ``[pair]``, NaN where one diverged."""
    found: dict[str, np.ndarray] = {}
    for family, factor in (("softmax", 1.0), ("sum", task.sum_rate)):
        module = OneLayer(family, spec)
        trained = text_arm(
            lab,
            f"text-{family}",
            key,
            module,
            replace(task.optim, learning_rate=factor * task.optim.learning_rate),
            tokens,
            batch=task.batch,
            length=spec.n_ctx or 0,  # set, or there would be no factors of positions
            seeds=task.seeds,
            every=task.chunk,
        )
        ends = np.asarray(jax.jit(partial(_losses, module))(trained.models, exam))
        found[f"{family}_end"] = np.where(trained.alive, ends, np.nan)
    return found


def _losses(module: OneLayer, members: AdditiveHeads, texts: Array) -> Array:
    # One text of one member at a time: the logits of all would take gigabytes.
    def of_member(heads: AdditiveHeads) -> Array:
        return jax.lax.map(lambda text: module_losses(module, heads, text[None]).mean(), texts)

    return jnp.mean(jax.lax.map(of_member, members), axis=1)


@dataclass(frozen=True)
class UnlessTask:
    """The language and the model that learns it.

    Attributes:
        model: Its vocabulary is the language's.
        length: Tokens of a text.
        high: P(out) with a alone.
        batch: Texts a step.
        texts: Texts to fit the additive model on, and as many to measure on.
        seeds: Members, each with its own initialisation and data.
        chunk: Steps between two looks.
    """

    model: TransformerSpec = field(
        default_factory=lambda: TransformerSpec(
            d_vocab=9, n_ctx=6, n_layers=1, n_heads=1, d_model=16, positions=Positions.none
        )
    )
    length: Annotated[int, "[4, inf)"] = 6
    high: Annotated[float, "(0.5, 1)"] = 0.9
    batch: Positive = 256
    texts: Positive = 4096
    seeds: Positive = 8
    chunk: Positive = 100

    def source(self, batch: int) -> UnlessSource:
        """So many texts of the language."""
        return UnlessSource(batch, self.length, self.model.d_vocab - len(UNLESS), self.high)


@dataclass(frozen=True)
class Answers(NextToken):
    """A `Problem`: the cross-entropy of the answer alone; no other token can be foretold."""

    def loss(self, params: PyTree, batch: Array, hyper: PyTree) -> Array:
        """The scalar that is minimised."""
        return jnp.mean(module_losses(self.module, params, batch)[:, -1])


def additivity_gap(
    task: UnlessTask, optim: OptimSpec, key: jax.Array, lab: Lab
) -> dict[str, np.ndarray]:
    """Held-out losses on the answer of the trained head and of the best sum over sources."""
    problem = Answers(Transformer(task.model), task.source(task.batch))
    plan = Plan(problem, optim, task.chunk, mesh=lab.mesh)
    members = new_members(derive(key, "training"), optim.learning_rate, jnp.zeros(task.seeds))
    state, train = init(plan, members), advance(plan, members)
    trained = measured_training(lab, "unless", state, train, steps=optim.steps, every=task.chunk)
    last, exam = slice(-1, None), task.source(task.texts)

    def one(params: PyTree, key: jax.Array) -> dict[str, Array]:
        model = model_from_params(params, task.model)
        texts = exam(derive(key, "fit"))
        held_out, cell = exam.sample(derive(key, "held out"))
        best = fit(init_full(task.model.d_vocab), texts, last, n_steps=60, decay=1e-5)
        logits = jax.vmap(lambda text: forward(model, text[:-1])[0][-1])(held_out)
        of_sum = jax.vmap(lambda text: additive_logits(best.model, text[:-1], last)[0])(held_out)
        in_cell = jax.nn.one_hot(cell, 4)

        def answers(logits: Array) -> tuple[Array, Array]:
            log_p = jax.nn.log_softmax(logits, axis=-1)
            probs = jnp.exp(log_p[:, jnp.array([OUT, OTHER])])
            p_out = probs[:, 0] / probs.sum(axis=1)
            losses = -jnp.take_along_axis(log_p, held_out[:, -1:], axis=-1)
            return losses.mean(), (p_out @ in_cell) / in_cell.sum(axis=0)

        (loss, p_out), (of_best, best_p_out) = answers(logits), answers(of_sum)
        found = {"additive_loss": of_best, "gap": of_best - loss}
        return found | {"p_out": p_out, "additive_p_out": best_p_out}

    examine = jax.jit(jax.vmap(one))
    found = lab.stage("gap", examine, trained.models, member_keys(derive(key, "exam"), task.seeds))
    least = np.full(task.seeds, exam.optimal_loss)
    return found | {"optimal_loss": least, "gap_alive": trained.alive}
