"""Training on the counts of a whole text at once, for models that read the last token only."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.models.transformer import Transformer


class Joint(NamedTuple):
    """Joint frequencies of token b after token a: non-negative shares of all pairs."""

    joint: Float[Array, "*member v v"]


@dataclass(frozen=True)
class FullBatchBigrams:
    """A `Problem`: cross-entropy of every adjacent pair of a text, exactly, nats a pair.

    The loss of a zero-layer model on a text depends on the counts of pairs alone, so a step on the
    count matrix is a step on the whole text: no sampling noise, whatever its length.

    Attributes:
        module: Of a spec with ``n_layers=0``.

    Raises:
        ValueError: If the model has layers.

    Source: S0 (circuits notes) Remark 21.
    """

    module: Transformer

    def __post_init__(self) -> None:
        n_layers = self.module.spec.n_layers
        if n_layers:
            raise ValueError(f"n_layers={n_layers} must be 0: layers read more than one token")

    def init(self, key: Key[Array, ""], hyper: Joint) -> PyTree:
        """Fresh parameters."""
        return self.module.init(key, self._every_token())["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> tuple[()]:
        """Nothing: the text is in ``hyper``."""
        return ()

    def loss(self, params: PyTree, batch: PyTree, hyper: Joint) -> Float[Array, ""]:
        """The scalar that is minimised."""
        logits = jnp.asarray(self.module.apply({"params": params}, self._every_token()))
        return -jnp.sum(hyper.joint * jax.nn.log_softmax(logits, axis=-1))

    def _every_token(self) -> Int[Array, " d_vocab"]:
        # As one text: a model without layers predicts from each token alone.
        return jnp.arange(self.module.spec.d_vocab)
