"""Closed-form phase diagram of the toy model: n = 2 features in m = 1 dimension, or 3 in 2.

All features have density p. The last ("extra") feature has importance r, the others have 1. The
diagram compares four hand-made configurations, whose weights are 0 or +-1 and whose norms are not
tuned, by their loss summed over features:

    ignore_first    p/3 - p^2/4          n = 2 only below; leaves out a feature of importance 1
    ignore_last     r (p/3 - p^2/4)      leaves out the last feature, whose bias is p/2
    pair_first      p^2/3                first two antipodal, last one dedicated (n = 3)
    pair_last       (1 + r) p^2/6        last one antipodal to another

The least of the four is an upper bound of the true optimum (`optimum`), which also tunes norms and
biases and makes two features antipodal before these curves cross: at r = 1 already at p = 0.65.
"""

from enum import IntEnum

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

TRIPLE_POINT = (1.0, 4 / 7)
"""(r, p) at which ignoring, dedicating and sharing tie."""


class Configuration(IntEnum):
    """The paper's configurations, in the order of `configuration_losses`."""

    ignore_first = 0
    ignore_last = 1
    pair_first = 2
    pair_last = 3


def configuration_losses(
    density: Float[Array, "*shape"], importance: Float[Array, "*shape"], n_features: int
) -> Float[Array, "*shape 4"]:
    """Sum losses of the four configurations, indexed by `Configuration`; absent ones are infinite.

    Source: toy-models paper, "Superposition as a Phase Change", and its derivation notebook.
    """
    p, r = density, importance
    ignored = p / 3 - p**2 / 4
    pair_first = p**2 / 3 if n_features == 3 else jnp.full_like(p, jnp.inf)
    return jnp.stack([ignored, r * ignored, pair_first, (1 + r) * p**2 / 6], axis=-1)


def best_configuration(
    density: Float[Array, "*shape"], importance: Float[Array, "*shape"], n_features: int
) -> tuple[Int[Array, "*shape"], Float[Array, "*shape"]]:
    """The configuration of least loss, as a `Configuration` value, and that loss."""
    losses = configuration_losses(density, importance, n_features)
    return jnp.argmin(losses, axis=-1), jnp.min(losses, axis=-1)
