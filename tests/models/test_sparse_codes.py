"""Sparse codes, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.models.sparse_codes import jump_gate, strongest

CODES = np.array([[0.3, 0.9, 0.1, 0.5], [0.0, 0.2, 0.8, 0.4]])


def test_the_strongest_codes_stay_for_a_k_that_is_an_array() -> None:
    with jax.enable_x64(True):
        every = jax.jit(jax.vmap(strongest, (None, 0)))(jnp.asarray(CODES), jnp.array([1, 2, 9]))
    for k, found in zip((1, 2, 4), np.asarray(every), strict=True):
        least = np.sort(CODES, axis=1)[:, -k][:, None]
        np.testing.assert_array_equal(found, np.where(least <= CODES, CODES, 0))
    with pytest.raises(ValueError, match="k=0"):
        strongest(jnp.asarray(CODES), 0)


def test_the_gate_is_a_step_whose_gradient_is_that_of_a_ramp() -> None:
    with jax.enable_x64(True):
        codes, threshold = jnp.array([[0.10, 0.52, 0.9]]), jnp.array([0.3, 0.5, 0.5])
        gate = jump_gate(codes, threshold, 0.1)
        slope = jax.grad(lambda t: jnp.sum(codes * jump_gate(codes, t, 0.1)))(threshold)
        other = jax.grad(lambda c: jnp.sum(jump_gate(c, threshold, 0.1)))(codes)
    assert gate.tolist() == [[0, 1, 1]]
    np.testing.assert_allclose(slope, [0, -0.52 / 0.1, 0], rtol=1e-12)
    assert not other.any()
