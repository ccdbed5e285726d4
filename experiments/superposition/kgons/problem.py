"""Toy models trained on one-hot data: in each sample exactly one feature is on."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.weights import TiedWeights


class OneHotHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        scale: Standard deviation of W at the start.
    """

    scale: Float[Array, "*member"]


class OneHotBatch(NamedTuple):
    """Index of the active feature in each sample, and its value in [0, 1)."""

    feature: Int[Array, " batch"]
    value: Float[Array, " batch"]


@dataclass(frozen=True)
class OneHotToy:
    """``relu(W^T W x + b)`` that gives back one feature, of uniform value; sum loss.

    Its expectation is `kgons.one_hot_loss`.

    Attributes:
        n_features: c, at least 1.
        n_hidden: m, at least 1.
        batch_size: Fresh samples in each step, at least 1.

    Raises:
        ValueError: If a field is less than 1.

    Source: Chen et al. 2023 (arXiv 2310.06301), the toy model of superposition.
    Differs: the paper draws a fixed set of samples once; here all are fresh.
    """

    n_features: int
    n_hidden: int = 2
    batch_size: int = 100

    def __post_init__(self) -> None:
        for field in ("n_features", "n_hidden", "batch_size"):
            check_range(field, getattr(self, field), "[1, inf)")

    def init(self, key: Key[Array, ""], hyper: OneHotHyper) -> TiedWeights:
        """``W ~ N(0, scale^2)``, ``b = 0``."""
        W = jax.random.normal(derive(key, "W"), (self.n_hidden, self.n_features), float)
        return TiedWeights(hyper.scale * W, jnp.zeros(self.n_features, float))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> OneHotBatch:
        """One feature and one value for each sample."""
        of_step, shape = at_index(key, step), (self.batch_size,)
        return OneHotBatch(
            jax.random.randint(derive(of_step, "feature"), shape, 0, self.n_features),
            jax.random.uniform(derive(of_step, "value"), shape, float),
        )

    def loss(self, params: TiedWeights, batch: OneHotBatch, hyper: OneHotHyper) -> Array:
        """Squared error, summed over features."""
        x = jax.nn.one_hot(batch.feature, self.n_features, dtype=batch.value.dtype)
        x = x * batch.value[:, None]
        output = jax.nn.relu(x @ params.W.T @ params.W + params.b[None, :])
        return jnp.mean(jnp.sum((x - output) ** 2, axis=1))
