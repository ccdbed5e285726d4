"""Dictionary learning on vectors that are given, such as activations of a model, as a problem."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.data.sparse import VectorSource
from circuitax.kernel.keys import at_index
from circuitax.models.autoencoder import Autoencoder
from circuitax.training.dictionary import reconstruction_loss


@dataclass(frozen=True)
class VectorDictionary:
    """The autoencoder gives back vectors whose true features nobody knows.

    The loss is that of `dictionary.reconstruction_loss`. ``hyper`` is the strength: k for TopK, the
    weight of the penalty otherwise.

    Attributes:
        autoencoder: The module, as wide as the vectors.
        source: Batches of vectors.

    Raises:
        ValueError: If the vectors have another length than ``autoencoder.d_in``.

    Source: Bricken et al. 2023, "Towards Monosemanticity"; other sources at `Autoencoder`.
    """

    autoencoder: Autoencoder
    source: VectorSource

    def __post_init__(self) -> None:
        length, d_in = self.source.rows.shape[1], self.autoencoder.d_in
        if length != d_in:
            raise ValueError(f"source has vectors of length {length}, must be d_in={d_in}")

    def init(self, key: Key[Array, ""], hyper: Float[Array, ""]) -> PyTree:
        """Random directions; the encoder is their transpose."""
        h = jnp.zeros((1, self.autoencoder.d_in))
        return self.autoencoder.init(key, h, jnp.ones(()))["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> Float[Array, "batch d_in"]:
        """The vectors of one step."""
        return self.source(at_index(key, step))

    def loss(
        self, params: PyTree, batch: Float[Array, "batch d_in"], hyper: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Squared error and the cost of sparsity."""
        return reconstruction_loss(self.autoencoder, params, batch, hyper)
