"""The loss of toy models: importance-weighted squared error."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from circuitax.kernel.checks import check_range, choice
from circuitax.superposition.loss.convention import Convention


def weighted_squared_error(
    target: Float[Array, "*shape"],
    output: Float[Array, "*shape"],
    importance: Float[Array, " n_features"],
    convention: Convention | str,
    *,
    feature_axis: int = -1,
) -> Float[Array, ""]:
    """Importance-weighted squared error, the mean over samples.

    ``L = mean_samples sum_i I_i (x_i - x_hat_i)^2``, divided by n_features under ``mean``.

    Source: toy-models paper, "Demonstrating Superposition"; its notebook for ``mean``.
    Differs: one formula of the paper puts the importance inside the square.
    """
    n_features = target.shape[feature_axis]
    if importance.shape[0] != n_features:
        raise ValueError(
            f"importance has {importance.shape[0]} entries, must have one per feature, {n_features}"
        )
    check_range("importance", importance, "[0, inf)")
    convention = choice("convention", Convention, convention)
    features_last = jnp.moveaxis(jnp.square(target - output), feature_axis, -1)
    error = jnp.mean(features_last, axis=tuple(range(target.ndim - 1)))
    total = jnp.sum(importance * error)
    return total / n_features if convention is Convention.mean else total
