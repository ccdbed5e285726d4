"""Sparse codes against sorting, and the gate's gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.models.autoencoder import jump_gate, strongest

CODES = np.array([[0.3, 0.9, 0.1, 0.5], [0.0, 0.2, 0.8, 0.4]])


def test_the_strongest_codes_stay_for_a_k_that_is_an_array() -> None:
    with jax.enable_x64(True):
        every = jax.jit(jax.vmap(strongest, (None, 0)))(jnp.asarray(CODES), jnp.array([1, 2, 9]))
    for k, found in zip((1, 2, 4), np.asarray(every), strict=True):
        least = np.sort(CODES, axis=1)[:, -k][:, None]
        np.testing.assert_array_equal(found, np.where(least <= CODES, CODES, 0))
    with pytest.raises(ValueError, match="k=0"):
        strongest(jnp.asarray(CODES), 0)


@pytest.mark.parametrize("double", [False, True])
def test_many_codes_with_ties_and_zeros(double: bool, rng: np.random.Generator) -> None:
    codes = np.maximum(rng.normal(size=(5, 300)), 0) * np.exp(rng.normal(size=(5, 300)) * 20)
    codes = codes.astype(np.float64 if double else np.float32)
    codes[0, 10:14] = 2 * codes[0].max()
    with jax.enable_x64(double):
        found = np.asarray(strongest(jnp.asarray(codes), 3))
        slope = np.asarray(jax.grad(lambda c: jnp.sum(2 * strongest(c, 3)))(jnp.asarray(codes)))
    least = np.sort(codes, axis=1)[:, -3:][:, :1]
    np.testing.assert_array_equal(found, np.where(codes >= least, codes, 0))
    np.testing.assert_array_equal(slope, np.where(codes >= least, 2, 0))
    assert (found[0] > 0).sum() == 4 and ((found[1:] > 0).sum(axis=1) == 3).all()


def test_the_gate_is_a_step_whose_gradient_is_that_of_a_ramp() -> None:
    with jax.enable_x64(True):
        codes, threshold = jnp.array([[0.10, 0.52, 0.9]]), jnp.array([0.3, 0.5, 0.5])
        gate = jump_gate(codes, threshold, 0.1)
        slope = jax.grad(lambda t: jnp.sum(codes * jump_gate(codes, t, 0.1)))(threshold)
        other = jax.grad(lambda c: jnp.sum(jump_gate(c, threshold, 0.1)))(codes)
    assert gate.tolist() == [[0, 1, 1]]
    np.testing.assert_allclose(slope, [0, -0.52 / 0.1, 0], rtol=1e-12)
    assert not other.any()
