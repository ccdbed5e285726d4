"""Exact expected loss of tied models under independent sparse features.

Output i sees a scalar, ``t = b_i + s`` with ``s = sum_{j != i} G_ij x_j`` and ``G = W^T W``, so

    E loss_i = I_i E[ (1 - p_i) off_i(t) + p_i on_i(t) ]    (`output_error`)

is one integral against the law of s, whose characteristic function is the product
``Phi(w) = prod_j (q_j + p_j phi(w G_ij))``. The part of that law with at most one active feature
is integrated in closed form. The rest has a continuous density, and a cosine series converges on
it like ``k^-5``. Cost ``O(n_features^2 n_terms)``; a pattern is never enumerated.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from circuitax.documented import documented
from circuitax.kernel.checks import check_range, choice, whole
from circuitax.kernel.compiled import compiled
from circuitax.kernel.weights import TiedWeights
from circuitax.superposition.output_error import Count, output_error, partial_error


class Convention(StrEnum):
    """Sum of the loss over features (toy-models paper) or mean over them (its code)."""

    sum = "sum"
    mean = "mean"


# Outputs are treated together while their characteristic functions fit this many numbers.
TOGETHER = 2**21


@documented
class ExpectedLoss(NamedTuple):
    """An expected loss with an estimate of its error.

    Attributes:
        value: The loss.
        error: Very conservative estimate of its truncation error.
    """

    value: Float[Array, "*batch"]
    error: Float[Array, "*batch"]


def expected_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    *,
    n_terms: int = 256,
    convention: Convention | str = Convention.sum,
) -> ExpectedLoss:
    """``E_x sum_i I_i (x_i - relu(W^T W x + b)_i)^2``, with ``x_i`` uniform on [0, 1] or zero.

    The loss is differentiable in weights, density and importance. The function takes one model; use
    ``jax.vmap`` for several. Call it under ``jax.enable_x64`` with float64 arrays: in float32,
    rounding limits the accuracy to about 1e-6.

    Args:
        weights: ``W [n_hidden, n_features]`` and ``b [n_features]``.
        density: P(feature is on), in [0, 1].
        importance: I_i, not negative.
        n_terms: Terms of the cosine series, at least 1; about 64 for three features. Up to two
            features the closed form is exact and 0 is allowed too.
        convention: ``sum`` or ``mean`` over the features.

    Returns:
        The value, and as error the sum of the magnitudes of the last half of the terms: an upper
        bound of the tail when terms fall at least like ``k^-2``, ten to some thousand times too
        large from 16 terms on.

    Raises:
        ValueError: If a weight is not finite or the shapes do not fit, ``n_terms`` is too small, a
            density is outside [0, 1], an importance is negative, or ``convention`` is neither
            ``sum`` nor ``mean``.

    Source: toy-models paper, "Demonstrating Superposition"; erratum E17 of docs/errata.md for the
        two conventions.
    """
    if not isinstance(weights, TiedWeights):
        raise ValueError(f"weights is a {type(weights).__name__}, must be TiedWeights(W, b)")
    W, b = weights
    check_range("weights.W", W, "(-inf, inf)")
    check_range("weights.b", b, "(-inf, inf)")
    if jnp.ndim(W) != 2 or jnp.shape(b) != jnp.shape(W)[1:]:
        raise ValueError(
            f"weights.W has shape {jnp.shape(W)} and weights.b {jnp.shape(b)}, must be [n_hidden, "
            "n_features] and [n_features]: vmap over models"
        )
    n_features = weights.W.shape[1]
    n_terms = whole("n_terms", n_terms)
    convention = choice("convention", Convention, convention)
    check_range("density", density, "[0, 1]")
    check_range("importance", importance, "[0, inf)")
    for name, given in (("density", density), ("importance", importance)):
        if jnp.shape(given) != (n_features,):
            raise ValueError(f"{name} has shape {jnp.shape(given)}, must be ({n_features},)")
    density, importance = jnp.asarray(density), jnp.asarray(importance)
    if n_terms < (n_features > 2):
        raise ValueError(
            f"n_terms={n_terms} must be at least 1 for n_features={n_features}: only up to two "
            "features (and then from 0) is the closed form exact"
        )
    return _expected_loss(weights, density, importance, n_terms, convention)


@compiled("n_terms", "convention")
def _expected_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    n_terms: int,
    convention: Convention,
) -> ExpectedLoss:
    gram = weights.W.T @ weights.W

    def one(row: Array, bias: Array, own: Array) -> tuple[Array, Array]:
        return output_error(row, bias, own, density, n_terms)

    value, error = _of_outputs(one, gram, weights.b, n_terms)
    scale = 1 / gram.shape[0] if convention is Convention.mean else 1.0
    return ExpectedLoss(scale * (importance @ value), scale * (importance @ error))


def partial_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
    *,
    n_terms: Count,
    block: int,
    first: Count,
) -> Float[Array, ""]:
    """Contribution of some cosine terms to the sum loss: one program serves any number of terms.

    The parts with ``first = 0, block, 2 block, ...`` below ``n_terms`` add up to `expected_loss`
    with ``n_terms``. The first one holds all that is no cosine term.
    """
    gram = weights.W.T @ weights.W

    def one(row: Array, bias: Array, own: Array) -> Array:
        return partial_error(row, bias, own, density, n_terms, block, first)[0]

    return importance @ _of_outputs(one, gram, weights.b, block)


def _of_outputs(
    one: Callable[..., PyTree],
    gram: Float[Array, "n_features n_features"],
    bias: Float[Array, " n_features"],
    n_terms: int,
) -> PyTree:
    """A function of couplings, bias and index of every output, in chunks that fit into memory."""
    n_features = gram.shape[0]
    outputs = (gram, bias, jnp.eye(n_features, dtype=bool))
    chunk = max(1, TOGETHER // max(1, n_features * n_terms))
    if chunk >= n_features:
        return jax.vmap(one)(*outputs)
    # Recomputed in the backward pass: memory stays that of one chunk.
    return jax.lax.map(jax.checkpoint(lambda output: one(*output)), outputs, batch_size=chunk)


def linear_loss(
    weights: TiedWeights,
    density: Float[Array, " n_features"],
    importance: Float[Array, " n_features"],
) -> Float[Array, ""]:
    """``E_x sum_i I_i (x_i - (W^T W x + b)_i)^2`` for independent sparse features.

    ``sum_i I_i [ sum_j R_ij^2 v_j + (R mu - b)_i^2 ]`` with ``R = 1 - W^T W``, the mean
    ``mu = p / 2`` and the variance ``v = p / 3 - p^2 / 4`` of a feature that is zero with
    probability ``1 - p`` and else uniform on [0, 1].

    Source: toy-models paper, "Demonstrating Superposition" (linear model); its loss is that of
        principal components.
    """
    missing = jnp.eye(density.shape[0], dtype=weights.W.dtype) - weights.W.T @ weights.W
    variance = density / 3 - density**2 / 4
    offset = missing @ (density / 2) - weights.b
    return importance @ (missing**2 @ variance + offset**2)
