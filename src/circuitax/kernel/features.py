"""Sparse synthetic features: independent ones, and correlated or anticorrelated sets.

Sparsity S is P(feature = 0); functions take the density p = 1 - S, which is a dynamic array, so a
sweep over densities is a vmap and compiles once. Densities lie in [0, 1]; they are checked where a
config becomes a spec, since a traced array cannot be.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from circuitax.kernel.keys import derive


def sample_features(
    key: Key[Array, ""],
    density: Float[Array, " n_features"],
    batch: int,
    *,
    signed: bool = False,
) -> Float[Array, "batch n_features"]:
    """Independent features: ``x_i = 0`` with probability ``1 - p_i``, else uniform on [0, 1].

    One uniform u serves mask and value: given ``u < p``, ``u / p`` is uniform again. Hence
    ``E x = p/2`` and ``E x^2 = p/3``. Random numbers are most of the time of a toy training step.
    A float32 uniform has 2^23 levels, so values come on a grid of ``2^-23 / p``.

    Args:
        key: Consumed.
        density: P(feature is on), in [0, 1], for each feature.
        batch: Number of samples, at least 1.
        signed: Draw values from [-1, 1] instead (the absolute-value model); ``E x = 0``.

    Raises:
        ValueError: If ``batch`` is less than 1.

    Source: toy-models paper, "Demonstrating Superposition", and for ``signed`` "Computation in
        Superposition".
    """
    _check_batch(batch)
    u = jax.random.uniform(key, (batch, density.shape[0]), density.dtype)
    on, v = _split(u, density[None, :])
    return jnp.where(on, 2 * v - 1 if signed else v, 0)


def sample_correlated(
    key: Key[Array, ""],
    density: Float[Array, " n_sets"],
    batch: int,
    *,
    set_size: int,
) -> Float[Array, "batch n_features"]:
    """Correlated sets: all members of a set are on together, each with its own uniform value.

    Set s holds the features ``s * set_size, ..., (s + 1) * set_size - 1``.

    Args:
        key: Consumed.
        density: P(set is on), in [0, 1]; also the density of each member.
        batch: Number of samples, at least 1.
        set_size: Members of a set, at least 1.

    Raises:
        ValueError: If ``batch`` or ``set_size`` is less than 1.

    Source: toy-models paper, "Correlated and anticorrelated features".
    """
    _check_batch(batch)
    _check_set_size(set_size)
    shape = (batch, density.shape[0])
    on, _ = _split(jax.random.uniform(derive(key, "sets"), shape, density.dtype), density[None, :])
    value = jax.random.uniform(derive(key, "values"), (*shape, set_size), density.dtype)
    return jnp.where(on[:, :, None], value, 0).reshape(batch, -1)


def sample_anticorrelated(
    key: Key[Array, ""],
    density: Float[Array, " n_sets"],
    batch: int,
    *,
    set_size: int,
) -> Float[Array, "batch n_features"]:
    """Anticorrelated sets: with probability p exactly one random member is on, else none.

    A member's own density is therefore ``p / set_size``. Sets are laid out as in
    `sample_correlated`.

    Args:
        key: Consumed.
        density: P(set is on), in [0, 1].
        batch: Number of samples, at least 1.
        set_size: Members of a set, at least 1.

    Raises:
        ValueError: If ``batch`` or ``set_size`` is less than 1.

    Source: toy-models paper, "Correlated and anticorrelated features".
    """
    _check_batch(batch)
    _check_set_size(set_size)
    shape = (batch, density.shape[0])
    # The rescaled set draw is uniform on [0, 1): its slot among set_size is the random member.
    on, v = _split(jax.random.uniform(derive(key, "sets"), shape, density.dtype), density[None, :])
    # In float32 v * set_size may round up to set_size.
    slot = jnp.minimum(jnp.floor(v * set_size), set_size - 1)[:, :, None]
    members = jnp.arange(set_size, dtype=density.dtype)[None, None, :]
    value = jax.random.uniform(derive(key, "values"), shape, density.dtype)[:, :, None]
    return jnp.where(on[:, :, None] & (slot == members), value, 0).reshape(batch, -1)


def _split(
    u: Float[Array, "batch n"], density: Float[Array, "1 n"]
) -> tuple[Bool[Array, "batch n"], Float[Array, "batch n"]]:
    """Mask ``u < p`` and, where it holds, the uniform ``u / p``; a density of 0 gives no NaN."""
    return u < density, u / jnp.where(density > 0, density, 1)


def _check_batch(batch: int) -> None:
    if batch < 1:
        raise ValueError(f"batch={batch} must be at least 1")


def _check_set_size(set_size: int) -> None:
    if set_size < 1:
        raise ValueError(f"set_size={set_size} must be at least 1")
