"""Norms, interference and dimensionality of features, and classes of neurons.

Every function takes one model's ``W [n_hidden, n_features]``, whose columns are the features; use
``jax.vmap`` for several models. A feature of zero norm has interference and dimensionality 0, with
finite gradients.

Every function takes one model's weights ``[n_hidden, n_features]``, neurons in rows; use
``jax.vmap`` for several models.

An attack is a small change of the input that raises the error of the output, measured against the
input before the change.
"""

from enum import IntEnum

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from circuitax.kernel.checks import check_range
from circuitax.kernel.toy import tied_forward
from circuitax.kernel.weights import TiedWeights

# The official code clamps norms here; far below any trained norm, safe to square in float32.
SMALLEST_NORM = 1e-6


def gram(W: Float[Array, "n_hidden n_features"]) -> Float[Array, "n_features n_features"]:
    """``W^T W``: the weight of feature j in output i."""
    return W.T @ W


def norms_sq(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_features"]:
    """``|W_i|^2``, about 1 for a represented feature and 0 for an ignored one."""
    return jnp.sum(W**2, axis=0)


def norms(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_features"]:
    """``|W_i|``, with gradient 0 at zero."""
    squares = norms_sq(W)
    dead = squares == 0
    return jnp.where(dead, 0, jnp.sqrt(jnp.where(dead, 1, squares)))


def interference_sq(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_features"]:
    """``sum_{j != i} (What_i . W_j)^2``, the squared overlap of a direction with other features.

    Source: toy-models paper, "Demonstrating Superposition" (colour of the norm bars).
    """
    return _driven(W) - norms_sq(W) * _is_live(W)


def interference_root(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_features"]:
    """The square root of `interference_sq`, which the official code plots.

    Differs: no 1e-5 is added to the norm.
    """
    squares = jnp.maximum(interference_sq(W), 0)
    zero = squares == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, squares)))


def dimensions_per_feature(W: Float[Array, "n_hidden n_features"]) -> Float[Array, ""]:
    """``D* = m / |W|_F^2``, hidden dimensions per represented feature.

    Source: toy-models paper, "The Geometry of Superposition".
    """
    return W.shape[0] / jnp.sum(W**2)


def dimensionality(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_features"]:
    """``D_i = |W_i|^2 / sum_j (What_i . W_j)^2``, feature i's share of a dimension.

    The sum over i is at most the rank, with equality iff every W_i is an eigenvector of ``W W^T``
    (a tegum product of tight frames). Equal to the capacity ``|W_i|^4 / sum_j (W_i . W_j)^2`` of
    Scherlis et al. 2022.

    Raises:
        ValueError: If W is no matrix, or not finite.

    Source: toy-models paper, "The Geometry of Superposition".
    """
    check_range("W", W, "(-inf, inf)")
    W = W if hasattr(W, "ndim") else jnp.asarray(W)
    if jnp.ndim(W) != 2:
        raise ValueError(f"W has shape {jnp.shape(W)}, must be [n_hidden, n_features]")
    live = _is_live(W)
    return jnp.where(live, norms_sq(W) / jnp.where(live, _driven(W), 1), 0)


def _is_live(W: Float[Array, "n_hidden n_features"]) -> Bool[Array, " n_features"]:
    return norms_sq(W) > SMALLEST_NORM**2


def _driven(W: Float[Array, "n_hidden n_features"]) -> Float[Array, " n_features"]:
    """``sum_j (What_i . W_j)^2``, itself included; 0 for an ignored feature."""
    live = _is_live(W)
    return jnp.where(live, jnp.sum(gram(W) ** 2, axis=1) / jnp.where(live, norms_sq(W), 1), 0)


def dimensionality_of_rows(rows: Float[Array, "n_features dim"]) -> Float[Array, " n_features"]:
    """``D_i = |w_i|^2 / sum_j (what_i . w_j)^2``, each row's share of a dimension.

    With ``M = sum_j w_j w_j^T`` it is ``|w_i|^4 / (w_i^T M w_i)``.
    Equal to `dimensionality` of the transpose, in ``O(n d^2)`` instead of ``O(n^2 d)``.
    The sum over i is at most the rank. For random directions it is about ``1 / (1 + n / d)``.

    Source: toy-models paper, "The Geometry of Superposition".
    """
    squares = jnp.sum(rows**2, axis=1)
    live = squares > SMALLEST_NORM**2
    moments = jnp.matmul(rows.T, rows, precision="highest")
    driven = jnp.sum(jnp.matmul(rows, moments, precision="highest") * rows, axis=1)
    return jnp.where(live, squares**2 / jnp.where(live, driven, 1), 0)


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
    live = jnp.sum(W**2, axis=1) >= least_norm**2
    pure = purity(W) >= least_purity
    mono, poly = NeuronClass.monosemantic, NeuronClass.polysemantic
    return jnp.where(live, jnp.where(pure, mono, poly), NeuronClass.dead)


def neurons_per_feature(
    W: Float[Array, "n_hidden n_features"], *, least_share: float = 0.25
) -> Int[Array, " n_features"]:
    """Number of neurons a feature turns on: those in which its weight is positive and large."""
    most = jnp.max(jnp.abs(W))
    on = (least_share * most <= W) & (most > 0)
    return jnp.sum(on, axis=0)


def attack_directions(
    W: Float[Array, "n_hidden n_features"],
) -> Float[Array, "n_features n_features"]:
    """``(W^T W)_i / |(W^T W)_i|`` in row i: the direction that raises output i the most.

    Source: toy-models paper, "Relationship to adversarial robustness".
    """
    rows = gram(W)
    squares = jnp.sum(rows**2, axis=1, keepdims=True)
    live = squares > SMALLEST_NORM**4
    return jnp.where(live, rows / jnp.sqrt(jnp.where(live, squares, 1)), 0)


def input_errors(
    weights: TiedWeights,
    x: Float[Array, "batch n_features"],
    importance: Float[Array, " n_features"],
    change: Float[Array, "*batch n_features"],
) -> Float[Array, " batch"]:
    """``sum_i I_i (x_i - out_i(x + change))^2``, the error of every input after a change."""
    output = tied_forward(weights, x + jnp.broadcast_to(change, x.shape))
    return (output - x) ** 2 @ importance


def analytic_errors(
    weights: TiedWeights,
    x: Float[Array, "batch n_features"],
    importance: Float[Array, " n_features"],
    strength: float | Float[Array, ""],
) -> Float[Array, "attack batch"]:
    """The error of every input under ``±strength`` times each of `attack_directions`.

    Source: toy-models paper, "Relationship to adversarial robustness".
    Differs: the paper does not say whether the sign is fixed or the feature is chosen for each
        input.
    """
    directions = attack_directions(weights.W)
    changes = strength * jnp.concatenate([directions, -directions])
    return jax.lax.map(lambda change: input_errors(weights, x, importance, change), changes)


def gradient_errors(
    weights: TiedWeights,
    x: Float[Array, "batch n_features"],
    importance: Float[Array, " n_features"],
    strength: float | Float[Array, ""],
    *,
    n_steps: int = 5,
) -> Float[Array, " batch"]:
    """The error of every input after projected gradient ascent inside the ball of ``strength``.

    Source: toy-models paper, "Relationship to adversarial robustness" (gradient masking); the
        ascent is that of Madry et al. 2018, arXiv 1706.06083.
    """

    def total(change: Array) -> Float[Array, ""]:
        return jnp.sum(input_errors(weights, x, importance, change))

    def step(change: Array, _: None) -> tuple[Array, None]:
        moved = change + strength / 2 * _unit(jax.grad(total)(change))
        norm = jnp.sqrt(jnp.sum(moved**2, axis=-1, keepdims=True))
        return moved * jnp.minimum(1, strength / jnp.maximum(norm, SMALLEST_NORM)), None

    change, _ = jax.lax.scan(step, jnp.zeros_like(x), length=n_steps)
    return input_errors(weights, x, importance, change)


def attack_bound(
    weights: TiedWeights,
    errors: Float[Array, " batch"],
    importance: Float[Array, " n_features"],
    strength: float | Float[Array, ""],
) -> Float[Array, " batch"]:
    """Upper bound on each input's error under any change of norm ``strength``."""
    stretch = jnp.sqrt(jnp.max(importance)) * jnp.linalg.norm(weights.W, ord=2) ** 2
    return (jnp.sqrt(errors) + strength * stretch) ** 2


def _unit(rows: Float[Array, "batch n"]) -> Float[Array, "batch n"]:
    squares = jnp.sum(rows**2, axis=-1, keepdims=True)
    return jnp.where(squares > 0, rows / jnp.sqrt(jnp.where(squares > 0, squares, 1)), 0)
