"""Texts of labelled exemplars, and the three parts of an induction circuit as clamps of it."""

from dataclasses import dataclass
from typing import cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.keys import derive
from circuitax.kernel.linalg import gram, symmetric_eigen
from circuitax.kernel.model import Model
from circuitax.models.parameters import model_from_params
from circuitax.models.transformer import Transformer
from circuitax.training.language import NextToken

PARTS = ("previous", "matching", "copying")
# Every token of a text of two labelled exemplars, their query and its answer.
LENGTH = 6
# How sharply a given comparison tells an exemplar from none: odds of e⁴ when attention is ideal.
_SHARPNESS = 4.0
# What a given copier leaves to labels that nobody attends to.
_REST = 1e-4


@dataclass(frozen=True)
class PairSource:
    """Texts ``x₁ l₁ x₂ l₂ x l`` of two labelled exemplars, one of them again, and its label.

    Exemplars and labels are two distinct ones each, labelled anew in every text: only the text
    tells the answer. Tokens below ``n_labels`` are labels, the ``n_classes`` others exemplars.

    Source: arXiv 2404.07129, section 3; there an exemplar is a drawing of Omniglot.
    """

    batch: int = 32
    n_classes: int = 50
    n_labels: int = 5

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch 6"]:
        """One batch, a pure function of the key."""

        def pair(name: str, n: int) -> Array:
            first = jax.random.randint(derive(key, name), (self.batch,), 0, n)
            shift = jax.random.randint(derive(key, f"other {name}"), (self.batch,), 1, n)
            return jnp.stack([first, (first + shift) % n], axis=1)

        pairs = jnp.stack(
            [self.n_labels + pair("class", self.n_classes), pair("label", self.n_labels)], 2
        )
        asked = jax.random.randint(derive(key, "asked"), (self.batch, 1, 1), 0, 2)
        again = jnp.take_along_axis(pairs, asked, axis=1)
        return jnp.concatenate([pairs, again], axis=1).reshape(self.batch, LENGTH)


@dataclass(frozen=True)
class Answer(NextToken):
    """`NextToken` whose loss is that of the answer alone, and whose exemplars stay as drawn.

    ``module`` has one output for each label; a member's numbers say which parts it is given.
    """

    def loss(self, params: PyTree, batch: PyTree, hyper: PyTree) -> Float[Array, ""]:
        """The mean loss of the answers of a batch, nats."""
        spec = cast(Transformer, self.module).spec
        is_label = (jnp.arange(spec.d_vocab) < spec.vocab_out)[:, None]
        drawn = jax.lax.stop_gradient(params["W_E"])
        named = params | {"W_E": jnp.where(is_label, params["W_E"], drawn)}
        return answer_loss(model_from_params(named, spec), batch, hyper)


def answer_loss(
    model: Model, texts: Int[Array, "batch 6"], parts: Bool[Array, " 3"]
) -> Float[Array, ""]:
    """The mean loss of the answers of texts, nats, to a model that is given some parts."""

    def one(text: Array) -> Array:
        logits = forward(model, text[:-1], given(model, text[:-1], parts))[0][-1]
        return -jax.nn.log_softmax(logits)[text[-1]]

    return jax.vmap(one)(texts).mean()


def given(model: Model, text: Int[Array, " 5"], parts: Bool[Array, " 3"]) -> Interventions:
    """The parts of an induction circuit that are given, ``parts`` in the order of `PARTS`.

    previous: heads of layer 1 attend from every place to the one before.
    matching: heads of layer 2 attend from the query to labels j by ``softmax_j 4 Σ_i A_ji [x_i =
    x]``, where A is the mean pattern of layer 1, given or not: to a label in so far as layer 1
    looked from it at the query's exemplar.
    copying: the answer's probability is the mean attention of layer 2 to its label.

    What is given is differentiable in what is not.
    """
    n, heads = text.size, model.spec.n_heads
    before = jnp.tile(jnp.eye(n, k=-1).at[0, 0].set(1.0), (heads, 1, 1))
    first = jnp.where(parts[0], before, forward(model, text)[1].patterns[0])
    looked = first.mean(axis=0) @ (text == text[-1]).astype(first.dtype)
    is_label = text < model.spec.vocab_out
    found = jax.nn.softmax(jnp.where(is_label, _SHARPNESS * looked, -jnp.inf))
    clamped = Interventions(
        patterns=jnp.stack([before, jnp.tile(found, (heads, n, 1))]),
        pattern_frozen=jnp.repeat(parts[:2, None], heads, axis=1),
    )
    attended = forward(model, text, clamped)[1].patterns[1][:, -1].mean(axis=0)
    logits = jnp.log(_REST + attended @ jax.nn.one_hot(text, model.spec.vocab_out))
    unembed = jax.lax.stop_gradient(model.W_U)
    values, vectors = symmetric_eigen(gram(unembed))
    written = logits @ (vectors / values[None]) @ vectors.T @ unembed.T
    # The stream behind layer 2 alone is replaced.
    replaced = parts[2] * jnp.zeros((3, n)).at[2].set(1.0)
    return clamped._replace(
        stream_keep=1 - replaced, stream_add=replaced[..., None] * jnp.tile(written, (3, n, 1))
    )
