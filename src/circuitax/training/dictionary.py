"""Dictionary learning as a training problem: sparse autoencoders on vectors of known law."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from circuitax.data.synthetic import paired_features
from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.models.autoencoder import Autoencoder, Sparsity


class DictionaryHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        directions: The true dictionary: h is the sum of features times their rows.
        density: p of every feature, in [0, 1].
        together: P(a feature is on, given that its partner is); see `data.paired`.
        strength: k for TopK, the weight of the penalty otherwise.
    """

    directions: Float[Array, "*member n_true d_in"]
    density: Float[Array, "*member"]
    together: Float[Array, "*member"]
    strength: Float[Array, "*member"]


class PairDraws(NamedTuple):
    """Uniforms of one batch, shared by members of any law."""

    pair: Float[Array, "batch n_pairs"]
    value: Float[Array, "batch n_true"]


@dataclass(frozen=True)
class DictionaryLearning:
    """A sparse autoencoder of ``h = sum_i x_i d_i``: its reconstruction from sparse codes.

    Attributes:
        autoencoder: The module.
        n_true: True features, at least 1.
        batch_size: Fresh samples in each step, at least 1.

    Source: Bricken et al. 2023, "Towards Monosemanticity"; other sources at `Autoencoder`.
    """

    autoencoder: Autoencoder
    n_true: int
    batch_size: int = 256

    def __post_init__(self) -> None:
        for field in ("n_true", "batch_size"):
            check_range(field, getattr(self, field), "[1, inf)")

    def init(self, key: Key[Array, ""], hyper: DictionaryHyper) -> PyTree:
        """Random directions; the encoder is their transpose."""
        h = jnp.zeros((1, self.autoencoder.d_in))
        return self.autoencoder.init(key, h, jnp.ones(()))["params"]

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> PairDraws:
        """Uniforms of one step."""
        return draw_pairs(at_index(key, step), self.batch_size, self.n_true)

    def loss(self, params: PyTree, batch: PairDraws, hyper: DictionaryHyper) -> Float[Array, ""]:
        """Squared error plus the sparsity penalty."""
        h = hidden_vectors(batch, hyper)
        return reconstruction_loss(self.autoencoder, params, h, hyper.strength)


def reconstruction_loss(
    autoencoder: Autoencoder,
    params: PyTree,
    h: Float[Array, "batch d_in"],
    strength: Float[Array, ""],
) -> Float[Array, ""]:
    """``|h - h'|^2`` plus the sparsity penalty, the mean over samples; see `DictionaryLearning`."""
    variables = {"params": params}
    coded: Any = autoencoder.apply(variables, h, strength, method="encode")
    if autoencoder.kind is Sparsity.matryoshka:
        back = jnp.asarray(autoencoder.apply(variables, coded.codes, method="prefixes"))
    else:
        back = jnp.asarray(autoencoder.apply(variables, coded.codes, method="decode"))[None]
    error = jnp.sum((back - h[None]) ** 2, axis=2)
    return jnp.mean(error) + jnp.mean(coded.cost)


# One program for each size, where eager steps take a dozen.
@partial(jax.jit, static_argnums=(1, 2), inline=True)
def draw_pairs(key: Key[Array, ""], batch: int, n_true: int) -> PairDraws:
    """Uniforms for ``batch`` samples of ``n_true`` features in pairs."""
    n_pairs = (n_true + 1) // 2
    return PairDraws(
        uniforms(derive(key, "pairs"), (batch, n_pairs)),
        uniforms(derive(key, "values"), (batch, n_true)),
    )


def hidden_vectors(draws: PairDraws, hyper: DictionaryHyper) -> Float[Array, "batch d_in"]:
    """``h = x D`` of every sample."""
    return paired_features(*draws, hyper.density, hyper.together) @ hyper.directions
