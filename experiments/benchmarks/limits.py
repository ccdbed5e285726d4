"""Roofline: the machine's peak rates, a row's least need of them, and the binding limit."""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from circuitax.kernel.keys import uniforms

PEAK_SIZE = 2048
# Far beyond any cache: 128 MB are read and as many written.
COPY_WORDS = 2**25
DRAWN_WORDS = 2**22
MATMUL, MEMORY, GENERATOR = "matmul peak", "memory bandwidth", "random numbers"


class Speeds(NamedTuple):
    """Peak rates of this machine a second.

    Attributes:
        matmul: Floating-point operations of a large float32 matrix product.
        memory: Bytes read and written by a copy that no cache holds.
        generator: Uniform numbers of 32 bits by threefry, as training steps draw them.
    """

    matmul: float
    memory: float
    generator: float


def least_seconds(
    speeds: Speeds, *, flops: float = 0.0, moved: float = 0.0, draws: float = 0.0
) -> dict[str, float]:
    """For each limit that some work meets, the time that it alone would take.

    Args:
        speeds: Of this machine.
        flops: Multiplications and additions of the matrix products.
        moved: Bytes to and from memory: what is read once and written once, nothing in between.
        draws: Random words of 32 bits.
    """
    times = {
        MATMUL: flops / speeds.matmul,
        MEMORY: moved / speeds.memory,
        GENERATOR: draws / speeds.generator,
    }
    return {name: seconds for name, seconds in times.items() if seconds > 0}


def machine_speeds() -> Callable[[], Speeds]:
    """A function that measures this machine's speeds, each the best of three."""
    square = jax.random.normal(jax.random.key(0), (PEAK_SIZE, PEAK_SIZE), jnp.float32)
    words = jnp.zeros(COPY_WORDS, jnp.float32)
    product = jax.jit(lambda x: x @ x)
    # In place, since new pages cost more than the bytes that are written to them.
    pass_over = jax.jit(lambda x: x + 1, donate_argnums=0)
    draw = jax.jit(lambda key: uniforms(key, (DRAWN_WORDS,)))

    def copy() -> jax.Array:
        nonlocal words
        words = pass_over(words)
        return words

    def measure() -> Speeds:
        return Speeds(
            2.0 * PEAK_SIZE**3 / _least_seconds(lambda: product(square)),
            2.0 * words.nbytes / _least_seconds(copy),
            DRAWN_WORDS / _least_seconds(lambda: draw(jax.random.key(1))),
        )

    measure()  # compiles
    return measure


def _least_seconds(compute: Callable[[], jax.Array]) -> float:
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(compute())
        seconds.append(time.perf_counter() - start)
    return min(seconds)
