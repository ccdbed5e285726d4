"""Threshold decoding: by hand, under its guarantee, and against the crosstalk estimate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.projection.coherence import (
    coherence,
    crosstalk_failure,
    decode,
    guaranteed_sparsity,
    recovery,
    unit_rows,
)


def test_the_pentagon_decodes_one_feature_and_erases_pairs() -> None:
    angle = 2 * np.pi * np.arange(5) / 5
    v = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], 1))
    one = jnp.eye(5, dtype=bool)
    np.testing.assert_array_equal(decode(v, one), one)
    # v_1 + v_3 has overlap 0.191 with each of the two, 0.618 with v_2 between them.
    np.testing.assert_array_equal(
        decode(v, jnp.array([True, False, True, False, False])), [False, True, False, False, False]
    )


def test_decoding_is_certain_below_the_guaranteed_sparsity() -> None:
    v = unit_rows(jax.random.normal(jax.random.key(0), (40, 400)))
    k = guaranteed_sparsity(float(coherence(v).largest))
    assert k >= 2
    found = recovery(jax.random.key(1), v, n_active=k, n_trials=500)
    assert (int(found.exact), int(found.missed), int(found.invented)) == (500, 0, 0)
    assert guaranteed_sparsity(0.25) == 1 and guaranteed_sparsity(0.24) == 2


def test_counts_agree_with_numpy_and_crosstalk_predicts_the_failures() -> None:
    n, m, k, trials = 200, 64, 3, 2000
    v = jax.random.normal(jax.random.key(2), (n, m))
    found = recovery(jax.random.key(3), v, n_active=k, n_trials=trials)
    rng = np.random.default_rng(0)
    unit = np.asarray(unit_rows(v), np.float64)
    failures = 0
    for _ in range(trials):
        on = np.zeros(n, bool)
        on[rng.choice(n, k, replace=False)] = True
        failures += not np.array_equal(unit @ (unit.T @ on) > 0.5, on)
    rate, ours = failures / trials, 1 - int(found.exact) / trials
    assert abs(rate - ours) < 5 * np.sqrt(2 * 0.25 / trials)
    assert abs(crosstalk_failure(n, m, k) - ours) < 0.15
    assert crosstalk_failure(n, m, 1) < crosstalk_failure(n, m, 3) < crosstalk_failure(n, m, 9)


def test_refusals_name_the_argument() -> None:
    v, key = jnp.eye(3), jax.random.key(0)
    traced = jax.jit(lambda k: recovery(key, v, n_active=k, n_trials=2))
    found = traced(9)  # past the end: all three features
    assert int(found.exact) == 2 and int(found.invented) == 0
    with pytest.raises(ValueError, match="n_trials=0"):
        recovery(key, v, n_active=1, n_trials=0)
    with pytest.raises(ValueError, match="threshold=1"):
        decode(v, jnp.ones(3, bool), 1.0)
    with pytest.raises(ValueError, match="coherence=0"):
        guaranteed_sparsity(0.0)
