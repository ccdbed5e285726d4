"""E31: S1's collapsed W_V is a pair (W_V, W_O) only up to rank d_value."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.forward import forward
from circuitax.kernel.gauge import collapse_values, factor_values
from circuitax.kernel.model import Model
from circuitax.kernel.weights import HeadStack


def test_E31_both_forms_give_the_same_model_up_to_the_rank(
    x64: None, rng: np.random.Generator
) -> None:
    W_V, W_O = rng.standard_normal((2, 3, 6, 2)), rng.standard_normal((2, 3, 2, 6))
    collapsed = collapse_values(jnp.asarray(W_V), jnp.asarray(W_O))
    np.testing.assert_allclose(collapsed, np.einsum("lhdv,lhve->lhde", W_V, W_O), rtol=1e-12)
    again = factor_values(collapsed, 2)
    np.testing.assert_allclose(again[0] @ again[1], collapsed, rtol=1e-10, atol=1e-12)
    assert again[0].shape == W_V.shape

    W_Q, W_K = (jnp.asarray(rng.standard_normal((2, 3, 6, 4))) for _ in range(2))
    identity = jnp.broadcast_to(jnp.eye(6), (2, 3, 6, 6))
    W_E, W_U = jnp.asarray(rng.standard_normal((5, 6))), jnp.asarray(rng.standard_normal((6, 5)))
    run = jax.jit(forward)
    logits = [
        run(
            Model.of(W_E=W_E, W_U=W_U, attention=HeadStack(W_Q, W_K, V, O)),
            jnp.array([4, 0, 2]),
        )[0]
        for V, O in ((jnp.asarray(W_V), jnp.asarray(W_O)), again, (collapsed, identity))
    ]
    np.testing.assert_allclose(logits[1], logits[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(logits[2], logits[0], rtol=1e-9, atol=1e-11)


def test_E31_a_full_matrix_is_no_pair(x64: None, rng: np.random.Generator) -> None:
    full = jnp.asarray(rng.standard_normal((6, 6)))
    with pytest.raises(ValueError, match="d_value=2 must be at least the rank of collapsed, 6"):
        factor_values(full, 2)
    W_V, W_O = factor_values(full, 6)
    np.testing.assert_allclose(W_V @ W_O, full, rtol=1e-10, atol=1e-12)
    singular = np.linalg.svd(np.asarray(full), compute_uv=False)
    assert singular[2] / singular[0] > 0.1, "what the printed equivalence would throw away"


def test_width_must_fit_the_stream() -> None:
    with pytest.raises(ValueError, match=r"d_value=7 must lie in \[1, d_model=6\]"):
        factor_values(jnp.eye(6), 7)
