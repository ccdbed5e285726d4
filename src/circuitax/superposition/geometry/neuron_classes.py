"""Classes of neurons in a hidden layer with a privileged basis, by their number of features.

Every function takes one model's weights ``[n_hidden, n_features]``, neurons in rows; use
``jax.vmap`` for several models.
"""

from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from circuitax.kernel.checks import check_range


class NeuronClass(IntEnum):
    """Class of a neuron by the features it serves."""

    dead = 0
    """Its weights are nearly zero."""
    monosemantic = 1
    """One feature has nearly all of its squared weight."""
    polysemantic = 2
    """Several features share it."""


def purity(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_hidden"]:
    """``max_i W_ki^2 / sum_i W_ki^2``: 1 for one feature, 1/k for k equal ones, 0 for none."""
    squares = W**2
    total = jnp.sum(squares, axis=1)
    return jnp.where(total > 0, jnp.max(squares, axis=1) / jnp.where(total > 0, total, 1), 0)


def neuron_classes(
    W: Float[Array, "n_hidden n_features"], *, least_norm: float = 0.1, least_purity: float = 0.9
) -> Int[Array, " n_hidden"]:
    """The `NeuronClass` of every neuron.

    Source: toy-models paper, "Superposition in a privileged basis" (monosemantic and polysemantic
        neurons).
    Differs: the paper classifies by eye; the thresholds are ours.
    """
    check_range("least_norm", least_norm, "[0, inf)")
    check_range("least_purity", least_purity, "(0.5, 1]")
    live = jnp.sum(W**2, axis=1) >= least_norm**2
    pure = purity(W) >= least_purity
    mono, poly = NeuronClass.monosemantic, NeuronClass.polysemantic
    return jnp.where(live, jnp.where(pure, mono, poly), NeuronClass.dead)


def neurons_per_feature(
    W: Float[Array, "n_hidden n_features"], *, least_share: float = 0.25
) -> Int[Array, " n_features"]:
    """Number of neurons a feature turns on: those in which its weight is positive and large."""
    check_range("least_share", least_share, "(0, 1]")
    most = jnp.max(jnp.abs(W))
    on = (least_share * most <= W) & (most > 0)
    return jnp.sum(on, axis=0)
