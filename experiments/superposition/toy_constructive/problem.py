"""Toy models on features that depend on each other, with a weight decay for each member."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.kernel.mlp import Activation
from circuitax.kernel.toy import copula_columns
from circuitax.kernel.weights import TiedWeights
from circuitax.models.toy import ToySpec, init_weights
from circuitax.superposition.expected_loss import Convention
from circuitax.training.toy import tied_columns, weighted_squared_error


class DependentHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        root: A root of the correlation matrix of the copula; see `kernel.features.copula_columns`.
        density: p_i in (0, 1).
        decay: Decoupled weight decay of W and b, 0 or more.
    """

    root: Float[Array, "*member n_features n_features"]
    density: Float[Array, "*member n_features"]
    decay: Float[Array, "*member"]


class CopulaDraws(NamedTuple):
    """Random numbers of one step, which members of any dependence share."""

    normal: Float[Array, "n_features batch"]
    value: Float[Array, "n_features batch"]


@dataclass(frozen=True)
class DependentToy:
    """``relu(W^T W x + b)`` that gives back dependent features; sum loss.

    Attributes:
        model: A tied model.
        batch_size: Fresh samples in each step, at least 1.

    Raises:
        ValueError: If ``batch_size`` is less than 1.

    Source: arXiv 2603.09972, correlated features arranged constructively.
    Differs: dependence by a Gaussian copula, which leaves every feature by itself as it is.
    """

    model: ToySpec
    batch_size: int = 1024

    def __post_init__(self) -> None:
        check_range("batch_size", self.batch_size, "[1, inf)")

    def init(self, key: Key[Array, ""], hyper: DependentHyper) -> TiedWeights:
        """Gaussian weights, zero biases."""
        return TiedWeights(*init_weights(self.model, key))

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> CopulaDraws:
        """Normals that decide which features are on, and uniform values."""
        key, shape = at_index(key, step), (self.model.n_features, self.batch_size)
        return CopulaDraws(
            jax.random.normal(derive(key, "normal"), shape, float),
            uniforms(derive(key, "value"), shape),
        )

    def loss(
        self, params: TiedWeights, batch: CopulaDraws, hyper: DependentHyper
    ) -> Float[Array, ""]:
        """Squared error, summed over features."""
        x = copula_columns(*batch, hyper.root, hyper.density)
        output = tied_columns(params, x, Activation.relu)
        importance = jnp.ones(self.model.n_features)
        return weighted_squared_error(x, output, importance, Convention.sum, feature_axis=0)

    def decay(self, params: TiedWeights, hyper: DependentHyper) -> TiedWeights:
        """Decoupled decay of all parameters, as AdamW has it."""
        return jax.tree.map(lambda p: hyper.decay * p, params)
