"""Next-token prediction as a training problem: a transformer, and where its texts come from."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.forward import forward
from circuitax.kernel.keys import at_index
from circuitax.kernel.weights import TransformerWeights
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights
from circuitax.training.losses import next_token_nats


@runtime_checkable
class Source(Protocol):
    """Where texts come from: hashable, and called with a key it returns a batch."""

    def __call__(self, key: Key[Array, ""]) -> Int[Array, "batch n_ctx"]:
        """One batch, a pure function of the key."""
        ...


@dataclass(frozen=True)
class NextToken:
    """A `Problem`: mean cross-entropy of all next tokens of a batch, nats a token.

    Members differ by their keys only; ``hyper`` is not used.

    Attributes:
        model: The transformer.
        source: Its texts.
    """

    model: TransformerSpec
    source: Source

    def init(self, key: Key[Array, ""], hyper: PyTree) -> TransformerWeights:
        """Fresh weights."""
        return init_weights(key, self.model)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Int[Array, "batch n_ctx"]:
        """The texts of one step."""
        return self.source(at_index(key, step))

    def loss(
        self, params: TransformerWeights, batch: Int[Array, "batch n_ctx"], hyper: PyTree
    ) -> Float[Array, ""]:
        """The scalar that is minimised."""
        return jnp.mean(text_losses(self.model, params, batch))


def text_losses(
    model: TransformerSpec, weights: TransformerWeights, texts: Int[Array, "batch n_ctx"]
) -> Float[Array, "batch n_predicted"]:
    """The loss on every token but the first of every text, nats; average over texts for a curve.

    Entry t is the loss on token t + 1, given tokens 0 to t.
    """
    spec = model.forward_spec()
    logits = jax.vmap(lambda text: forward(weights, text, spec)[0])(texts)
    return next_token_nats(logits, texts)
