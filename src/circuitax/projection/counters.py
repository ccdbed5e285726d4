"""Exact counts past 2^32 and compensated sums, in 32-bit arithmetic.

Ten thousand points have 5·10^7 pairs, a hundred thousand 5·10^9: more than a 32-bit counter holds
and more terms than a plain float32 sum keeps apart. Both are needed without switching JAX to 64
bits.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt32

from circuitax.documented import documented


@documented
class WideCount(NamedTuple):
    """A 64-bit count as two 32-bit limbs: ``high * 2^32 + low``; `count_value` reads it.

    Attributes:
        low: The lower limb.
        high: The upper limb.
    """

    low: UInt32[Array, "*shape"]
    high: UInt32[Array, "*shape"]


@documented
class CompensatedSum(NamedTuple):
    """A running sum and its accumulated rounding error (Neumaier); `sum_value` adds them.

    Attributes:
        value: The sum as rounded at every step.
        error: What rounding took from it.
    """

    value: Float[Array, "*shape"]
    error: Float[Array, "*shape"]


def zero_count(shape: tuple[int, ...] = ()) -> WideCount:
    """A count of 0."""
    return WideCount(jnp.zeros(shape, jnp.uint32), jnp.zeros(shape, jnp.uint32))


def add_count(count: WideCount, n: Shaped[Array, "*shape"]) -> WideCount:
    """The count plus ``n``, ``0 <= n < 2^32``."""
    low = count.low + n.astype(jnp.uint32)
    return WideCount(low, count.high + (low < count.low).astype(jnp.uint32))


def count_value(count: WideCount) -> Int[np.ndarray, "*shape"]:
    """The count as NumPy int64, on the host."""
    high, low = np.asarray(count.high, np.int64), np.asarray(count.low, np.int64)
    return np.asarray(high * 2**32 + low)


def zero_sum(shape: tuple[int, ...] = ()) -> CompensatedSum:
    """An empty sum."""
    return CompensatedSum(jnp.zeros(shape), jnp.zeros(shape))


def add_term(total: CompensatedSum, term: Float[Array, "*shape"]) -> CompensatedSum:
    """The sum plus one term; its error does not grow with the number of terms.

    Source: Neumaier 1974 (improved Kahan–Babuška algorithm).
    """
    value = total.value + term
    larger = jnp.abs(total.value) >= jnp.abs(term)
    lost = jnp.where(larger, (total.value - value) + term, (term - value) + total.value)
    return CompensatedSum(value, total.error + lost)


def sum_value(total: CompensatedSum) -> Float[np.ndarray, "*shape"]:
    """The corrected sum as NumPy float64, on the host."""
    return np.asarray(np.asarray(total.value, np.float64) + np.asarray(total.error, np.float64))
