"""Random keys, derived by purpose, step and member; no key is used twice or stored in a module."""

import zlib
from functools import partial
from typing import Any

import jax
from jaxtyping import Array, Int, Key

from circuitax.kernel.checks import check_range


def derive(key: Key[Array, "*batch"], purpose: str) -> Key[Array, "*batch"]:
    """The key for one purpose, such as ``"init"`` or ``"data"``."""
    check_key(key)
    if not purpose:
        raise ValueError("purpose='' must be a non-empty name, such as 'init' or 'data'")
    tag = zlib.crc32(purpose.encode()) & 0x7FFFFFFF
    return at_index(key, tag)


def check_key(key: Any, *, one: bool = False) -> None:
    """Require typed keys; a seed is none."""
    typed = isinstance(key, jax.Array) and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed:
        raise ValueError(f"key={key!r} must be a random key, such as jax.random.key(0)")
    if one and key.ndim:
        raise ValueError(f"key has shape {key.shape}, must be one key: vmap over a batch of them")


def at_index(key: Key[Array, "*batch"], index: int | Int[Array, "*#batch"]) -> Key[Array, "*batch"]:
    """The key at one step or for one member: ``fold_in(key, index)``, over any batch of keys."""
    fold_in = jax.random.fold_in
    for _ in range(key.ndim):
        fold_in = jax.vmap(fold_in, in_axes=(0, None))
    return fold_in(key, index)


# One program for each number, where eager steps take three.
@partial(jax.jit, static_argnums=1, inline=True)
def member_keys(key: Key[Array, ""], n_members: int) -> Key[Array, " member"]:
    """One key for each member of an ensemble; member ``i`` does not depend on ``n_members``."""
    check_key(key)
    check_range("n_members", n_members, "[1, inf)")
    indices = jax.numpy.arange(n_members)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, indices)


@partial(jax.jit, static_argnums=1, inline=True)
def in_a_row(keys: Key[Array, " key"], times: int) -> Key[Array, " repeated"]:
    """Every key repeated the given number of times in a row, for members that share it."""
    return jax.numpy.repeat(keys, times)
