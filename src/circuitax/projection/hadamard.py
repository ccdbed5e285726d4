"""The subsampled randomised Hadamard transform: random signs, Hadamard, a random subset of rows."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from circuitax.kernel.checks import check_range
from circuitax.kernel.keys import derive


def padded_dim(dim_in: int) -> int:
    """The smallest power of two that is at least ``dim_in``."""
    check_range("dim_in", dim_in, "[1, inf)")
    return 1 << (dim_in - 1).bit_length()


def hadamard_transform(x: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
    """The orthonormal Walsh–Hadamard transform ``x H / √dim``, in O(dim log dim) for each vector.
    """
    dim = x.shape[-1]
    if dim < 1 or dim & (dim - 1):
        raise ValueError(f"x has length {dim}; the Hadamard transform needs a power of two")
    y = x.reshape(*x.shape[:-1], *(2,) * (dim.bit_length() - 1))
    for axis in range(x.ndim - 1, y.ndim):
        first, second = jnp.split(y, 2, axis)
        y = jnp.concatenate([first + second, first - second], axis)
    return y.reshape(x.shape) / math.sqrt(dim)


def subsampled_hadamard(
    key: Key[Array, ""], points: Float[Array, "*batch dim_in"], dim_out: int
) -> Float[Array, "*batch {dim_out}"]:
    """``f(z) = √(D/m) S H Σ z``: signs Σ, orthonormal H, m of D coordinates without repeats.

    D is ``dim_in`` rounded up to a power of two (padded with zeros), so at m = D the map is an
    isometry; ``E‖f(z)‖² = ‖z‖²`` for every m.

    Source: Ailon and Chazelle 2006; Tropp 2011, section 1.2.
    """
    dim_in = points.shape[-1]
    padded = padded_dim(dim_in)
    if not 1 <= dim_out <= padded:
        raise ValueError(
            f"dim_out={dim_out} must be in [1, {padded}], the padded input dimension: "
            "rows are drawn without replacement"
        )
    signs = jax.random.rademacher(derive(key, "signs"), (dim_in,), points.dtype)
    rows = jax.random.permutation(derive(key, "rows"), padded)[:dim_out]
    z = points * jnp.broadcast_to(signs, points.shape)
    z = jnp.pad(z, [(0, 0)] * (points.ndim - 1) + [(0, padded - dim_in)])
    return math.sqrt(padded / dim_out) * hadamard_transform(z)[..., rows]
