"""Adversarial training of the tied toy model: every sample is attacked along a random feature."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import at_index, derive, uniforms
from circuitax.kernel.toy import feature_columns
from circuitax.kernel.weights import TiedWeights
from circuitax.models.toy import ToyKind, ToySpec, init_weights
from circuitax.superposition.attacks import attack_directions
from circuitax.superposition.expected_loss import Convention
from circuitax.training.toy import tied_columns, weighted_squared_error


class AttackedHyper(NamedTuple):
    """Hyperparameters that may differ between members of one compiled ensemble.

    Attributes:
        density: p = 1 - S in [0, 1], one for each feature.
        importance: I_i, not negative.
        strength: L2 norm of the attack, not negative; 0 is training without attacks.
    """

    density: Float[Array, "*member n_features"]
    importance: Float[Array, "*member n_features"]
    strength: Float[Array, "*member"]


class AttackedBatch(NamedTuple):
    """Random numbers of one step; members of any density and strength share them.

    Attributes:
        features: Uniform; see `kernel.features.feature_columns`.
        target: The feature whose direction is used.
        sign: -1 or 1.
    """

    features: Float[Array, "n_features batch"]
    target: Int[Array, " batch"]
    sign: Float[Array, " batch"]


@dataclass(frozen=True)
class AdversarialToy:
    """The tied model, trained to give back the input before the attack; sum loss.

    The attack is along ``(W^T W)_i`` of the present weights, for a feature i that is drawn for each
    sample; its gradient with respect to the weights is not followed.

    Attributes:
        model: A tied model with a ReLU output.
        batch_size: Fresh samples in each step, at least 1.

    Raises:
        ValueError: If ``batch_size`` is less than 1 or the model is not tied.

    Source: toy-models paper, "Relationship to adversarial robustness" (adversarial training).
    """

    model: ToySpec
    batch_size: int = 1024

    def __post_init__(self) -> None:
        check_range("batch_size", self.batch_size, "[1, inf)")
        if self.model.kind is not ToyKind.tied:
            raise ValueError(f"model.kind={self.model.kind.value} must be tied")

    def init(self, key: Key[Array, ""], hyper: AttackedHyper) -> TiedWeights:
        """Gaussian weights, zero biases."""
        weights = init_weights(self.model, key)
        return TiedWeights(*weights)

    def batch(self, key: Key[Array, ""], step: Int[Array, ""]) -> AttackedBatch:
        """Uniforms of the features, and the attacked feature with its sign."""
        key, n = at_index(key, step), self.model.n_features
        shape = (self.batch_size,)
        return AttackedBatch(
            uniforms(derive(key, "features"), (n, *shape)),
            jax.random.randint(derive(key, "target"), shape, 0, n),
            jax.random.rademacher(derive(key, "sign"), shape, float),
        )

    def loss(
        self, params: TiedWeights, batch: AttackedBatch, hyper: AttackedHyper
    ) -> Float[Array, ""]:
        """Importance-weighted squared error of one attacked batch."""
        x = feature_columns(batch.features, hyper.density, signed=False)
        directions = attack_directions(jax.lax.stop_gradient(params.W))
        attacked = x + hyper.strength * batch.sign[None] * directions[batch.target].T
        output = tied_columns(params, attacked, self.model.output)
        return weighted_squared_error(x, output, hyper.importance, Convention.sum, feature_axis=0)
