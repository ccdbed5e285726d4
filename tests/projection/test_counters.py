"""Counters past 2^32, and sums that a plain float32 loop gets wrong."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.projection.stream import (
    add_count,
    add_term,
    count_value,
    sum_value,
    zero_count,
    zero_sum,
)


def test_counts_carry_into_the_high_limb() -> None:
    steps = jnp.array([[2**31 - 1, 5]] * 7, jnp.uint32)
    count, _ = jax.lax.scan(lambda c, n: (add_count(c, n), None), zero_count((2,)), steps)
    np.testing.assert_array_equal(count_value(count), [7 * (2**31 - 1), 35])


def test_compensated_sum_keeps_what_a_plain_sum_loses(rng: np.random.Generator) -> None:
    terms = np.concatenate([[1e6], rng.uniform(0, 0.01, 20_000), [-1e6]]).astype(np.float32)
    exact = terms.astype(np.float64).sum()
    total, _ = jax.lax.scan(lambda s, t: (add_term(s, t), None), zero_sum(), jnp.asarray(terms))
    assert abs(sum_value(total) - exact) < 1e-5 * exact
    plain, _ = jax.lax.scan(lambda s, t: (s + t, None), jnp.zeros(()), jnp.asarray(terms))
    assert abs(float(plain) - exact) > 1e-2 * exact
