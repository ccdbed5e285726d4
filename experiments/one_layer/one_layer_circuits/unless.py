"""The additivity gap on "a unless b": one trained head against the best sum over sources.

In this language the answer is likely "out" where a stands in the text and b does not. A softmax can
let b take the attention from a; a sum over sources adds up what each of them says.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from circuitax.circuits.skip_trigrams import additive_logits, fit, init_full
from circuitax.kernel.forward import forward
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.kit.checks import require_at_least, require_equal, require_in
from circuitax.kit.measured_training import measured_training
from circuitax.kit.memory import require_arrays
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import NextToken, module_losses
from circuitax.training.optim import OptimSpec
from experiments.one_layer.one_layer_circuits.unless_task import (
    OTHER,
    OUT,
    optimal_loss,
    sample_unless,
)


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
    length: int = 6
    high: float = 0.9
    batch: int = 256
    texts: int = 4096
    seeds: int = 8
    chunk: int = 100

    def __post_init__(self) -> None:
        require_at_least(self, 1, "batch", "texts", "seeds", "chunk")
        require_equal(self, 1, "model.n_layers")
        require_at_least(self, 6, "model.d_vocab")
        require_at_least(self, 4, "length")
        require_in(self, "(0.5, 1)", "high")
        require_arrays(
            self,
            "3 seeds model",
            "batch length model.d_vocab",
            "seeds texts length model.d_vocab",
        )

    def __call__(self, key: jax.Array) -> Array:
        """One batch, a pure function of the key."""
        return self.sample(key, self.batch)[0]

    def sample(self, key: jax.Array, batch: int) -> tuple[Array, Array]:
        """Texts, and which of a and b each holds."""
        n_filler = self.model.d_vocab - 5
        found = sample_unless(key, batch, self.length, n_filler=n_filler, high=self.high)
        return found.tokens, found.cell


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
