"""The zero-layer transformer trained on a whole table of counts at once."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.kernel.forward import forward
from circuitax.kernel.weights import TransformerWeights
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights


class Joint(NamedTuple):
    """How often token b follows token a, as shares of all pairs: non-negative, sums to 1."""

    joint: Float[Array, "*member v v"]


@dataclass(frozen=True)
class FullBatchBigrams:
    """A `Problem`: cross-entropy of every adjacent pair of a text, exactly, nats a pair.

    The loss of a zero-layer model on a text depends on the counts of pairs alone, so a step on the
    count matrix is a step on the whole text: no sampling noise, whatever its length.

    Attributes:
        model: With ``n_layers=0``.

    Raises:
        ValueError: If the model has layers.

    Source: S0 Remark 21.
    """

    model: TransformerSpec

    def __post_init__(self) -> None:
        if self.model.n_layers:
            raise ValueError(f"n_layers={self.model.n_layers} must be 0: layers read more context")

    def init(self, key: Key[Array, ""], hyper: Joint) -> TransformerWeights:
        """Fresh weights."""
        return init_weights(key, self.model, float)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> tuple[()]:
        """Nothing: the text is in ``hyper``."""
        return ()

    def loss(self, params: TransformerWeights, batch: PyTree, hyper: Joint) -> Float[Array, ""]:
        """The scalar that is minimised."""
        return -jnp.sum(hyper.joint * bigram_log_probs(params, self.model))


def bigram_log_probs(weights: TransformerWeights, model: TransformerSpec) -> Float[Array, "v v"]:
    """What a zero-layer model predicts after each token: row a is ``log P(. | a)``.

    ``log softmax(W_E W_U)``, through the model's own forward pass on all tokens as one text.
    """
    every = jnp.arange(weights.W_E.shape[0])
    return jax.nn.log_softmax(forward(weights, every, model.forward_spec())[0], axis=-1)


def direct_path_log_probs(weights: TransformerWeights) -> Float[Array, "v v"]:
    """What the direct path of any attention-only model without norm predicts on its own.

    ``log softmax(W_E W_U + b_U)``, the term without heads of the path expansion.

    Source: S0 Theorem 25; framework paper, "The Path Expansion Trick".
    """
    logits = weights.W_E @ weights.W_U
    if weights.b_U is not None:
        logits = logits + weights.b_U[None, :]
    return jax.nn.log_softmax(logits, axis=-1)
