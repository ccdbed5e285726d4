"""Random keys, derived by purpose, step and member, and uniform numbers drawn from them.

On a CPU, JAX 0.10 compiles the rounds of threefry into a loop that goes through memory five times.
Written out, they are one pass that stays in registers, which draws the same numbers at twice the
speed or more and compiles sooner. Drawing is most of a toy model's training step.
"""

import math
import zlib
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

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


ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def uniforms(
    key: Key[Array, ""], shape: tuple[int, ...], dtype: type | jnp.dtype = float
) -> Float[Array, "*shape"]:
    """``jax.random.uniform(key, shape, dtype)``: uniform on [0, 1), bit by bit the same numbers.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", threefry 2x32 with 20
        rounds, a count for each number as in JAX.
    """
    kept = jax.dtypes.canonicalize_dtype(dtype)
    threefry = str(jax.random.key_impl(key)) == "threefry2x32"
    counted = jax.threefry_partitionable.value and math.prod(shape) < 2**32
    if not (threefry and counted and kept in (jnp.float32, jnp.float64)):
        return jax.random.uniform(key, shape, dtype)
    high, low = _words(key, shape)
    # The upper bits become the fraction of a number in [1, 2).
    if kept == jnp.float32:
        bits = (high ^ low) >> 9 | jnp.uint32(0x3F800000)
    else:
        whole = high.astype(jnp.uint64) << 32 | low.astype(jnp.uint64)
        bits = whole >> 12 | jnp.uint64(0x3FF0000000000000)
    return jax.lax.bitcast_convert_type(bits, kept) - jnp.ones((), kept)


def _words(
    key: Key[Array, ""], shape: tuple[int, ...]
) -> tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]:
    """Two random words for each number: threefry of its index."""
    first, second = jax.random.key_data(key)
    keys = (first, second, first ^ second ^ jnp.uint32(PARITY))
    count = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    x, y = jnp.broadcast_to(keys[0], shape), count + keys[1]
    for block in range(5):
        for turn in ROTATIONS[block % 2]:
            x = x + y
            y = x ^ (y << turn | y >> (32 - turn))
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + jnp.uint32(block + 1)
    return x, y


def host_generator(key: Key[Array, ""]) -> np.random.Generator:
    """A NumPy generator for draws that suit JAX badly: permutations of files, ragged texts."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32))
