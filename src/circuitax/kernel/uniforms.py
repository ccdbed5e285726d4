"""Uniform random numbers for training steps: JAX's generator, bit for bit, in one pass.

On a CPU, JAX 0.10 compiles the rounds of threefry into a loop that goes through memory five times.
Written out, they are one pass that stays in registers, which draws the same numbers at twice the
speed or more and compiles sooner. Drawing is most of a toy model's training step.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, UInt32

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
