"""What one softmax head computes that no sum over sources does: on text, and on "a unless b".

On text the same heads are trained with and without their denominators, each family at its best.
Both have the weights and factors of `circuits.additive_heads`; that of the destination, which
stands in the place of the denominator, cancels in the softmax. Members of both start from equal
weights and see the same windows.

"a unless b" is filler, perhaps an ``a``, perhaps a ``b``, then the query, then ``out`` or
``other``, with ``P(out | neither, a, b, both) = 1/2, high, 1/2, 1/2``. A sum of skip-trigrams gives
"both" the sum of the logits that ``a`` and ``b`` add alone, which is a raise; the language asks for
none. A head's softmax can do it: attention that goes to ``b`` is taken from ``a``. The four cells
are equally frequent. Source: Shlegeris, "One-layer transformers aren't equivalent to a set of
skip-trigrams" (2023); erratum E11.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
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
from circuitax.training.language import NextToken, module_losses, train_on_text
from circuitax.training.optim import OptimSpec

# Tokens of "a unless b", then fillers; and which of a and b a text holds.
A, B, QUERY, OUT, OTHER, FIRST_FILLER = range(6)
NEITHER, ONLY_A, ONLY_B, BOTH = range(4)


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

    The key is that of initialisations and data, the same of both families; a member that diverged
    has no last loss.
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


@dataclass(frozen=True)
class UnlessTask:
    """The language and the one-layer model that learns it.

    Attributes:
        model: One layer; its vocabulary is the language's.
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

    def __post_init__(self) -> None:
        if self.model.n_layers != 1 or self.model.d_vocab < 6:
            raise ValueError(
                f"model.n_layers={self.model.n_layers} must be 1, and "
                f"model.d_vocab={self.model.d_vocab} at least 6: five tokens and a filler"
            )

    def __call__(self, key: jax.Array) -> Array:
        """One batch, a pure function of the key."""
        return self.sample(key, self.batch)[0]

    def sample(self, key: jax.Array, batch: int) -> tuple[Array, Array]:
        """Texts, and which of a and b each holds."""
        n_filler = self.model.d_vocab - 5
        return sample_unless(key, batch, self.length, n_filler=n_filler, high=self.high)


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
    plan = Plan(Answers(Transformer(task.model), task), optim, task.chunk, mesh=lab.mesh)
    members = new_members(derive(key, "training"), optim.learning_rate, jnp.zeros(task.seeds))
    trained = measured_training(
        lab,
        "unless",
        init(plan, members),
        advance(plan, members),
        steps=optim.steps,
        every=task.chunk,
    )
    last = slice(-1, None)

    def one(params: PyTree, key: jax.Array) -> dict[str, Array]:
        model = model_from_params(params, task.model)
        texts, _ = task.sample(derive(key, "fit"), task.texts)
        held_out, cell = task.sample(derive(key, "held out"), task.texts)
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

        (loss, p_out), (additive_loss, additive_p_out) = answers(logits), answers(of_sum)
        return {
            "head_loss": loss,
            "additive_loss": additive_loss,
            "additive_gradient": best.gradient_norm,
            "gap": additive_loss - loss,
            "p_out": p_out,
            "additive_p_out": additive_p_out,
        }

    examine = jax.jit(jax.vmap(one))
    found = lab.stage("gap", examine, trained.models, member_keys(derive(key, "exam"), task.seeds))
    floor = np.full(task.seeds, optimal_loss(task.high))
    return found | {"optimal_loss": floor, "gap_alive": trained.alive}


def answer_probs(high: float) -> Float[Array, " cell"]:
    """P(out) in the cells neither, only a, only b, both."""
    return jnp.array([0.5, high, 0.5, 0.5])


def optimal_loss(high: float) -> float:
    """Least cross-entropy of the answer, nats: the mean entropy of the four cells."""
    probs = answer_probs(high)
    return float(-jnp.mean(probs * jnp.log(probs) + (1 - probs) * jnp.log1p(-probs)))


def sample_unless(
    key: Key[Array, ""], batch: int, length: int, *, n_filler: int, high: float
) -> tuple[Int[Array, "batch length"], Int[Array, " batch"]]:
    """Texts of the language that end in the query and its answer, and the cell of each."""
    cell = jax.random.randint(derive(key, "cell"), (batch,), 0, 4)
    n_places = length - 2
    filler = jax.random.randint(
        derive(key, "filler"), (batch, n_places), FIRST_FILLER, FIRST_FILLER + n_filler
    )
    # Two different places: the second is uniform over the remaining ones.
    place_a = jax.random.randint(derive(key, "place a"), (batch,), 0, n_places)
    gap = jax.random.randint(derive(key, "gap"), (batch,), 1, n_places)
    place_b = (place_a + gap) % n_places
    where = jnp.arange(n_places)[None, :]
    has_a = (cell == ONLY_A) | (cell == BOTH)
    has_b = (cell == ONLY_B) | (cell == BOTH)
    body = jnp.where(has_a[:, None] & (where == place_a[:, None]), A, filler)
    body = jnp.where(has_b[:, None] & (where == place_b[:, None]), B, body)
    out = jax.random.uniform(derive(key, "answer"), (batch,)) < answer_probs(high)[cell]
    tail = jnp.stack([jnp.full_like(cell, QUERY), jnp.where(out, OUT, OTHER)], axis=1)
    return jnp.concatenate([body, tail], axis=1), cell
