"""The bug of the framework paper, planted and priced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import skip_trigrams as bugs


def test_keep_in_bay_is_found():
    """keep … in → mind and keep … at → bay force keep … in → bay and keep … at → mind."""
    scores = jnp.array([[2.0, 3.0], [-1.0, 5.0]])  # sources keep, other; destinations in, at
    raises = jnp.array([[1.0, 2.0], [4.0, -1.0]])  # outs mind, bay
    counts = jnp.zeros((2, 2, 2)).at[0, 0, 0].set(9).at[0, 1, 1].set(4).at[1, 1, 0].set(3)
    found = jax.jit(bugs.find_bugs, static_argnums=3)(scores, raises, counts, 3)
    np.testing.assert_array_equal(found.source[:2], [0, 0])
    np.testing.assert_array_equal(found.destination[:2], [0, 1])
    np.testing.assert_array_equal(found.out[:2], [1, 0])
    np.testing.assert_allclose(found.strength, [4, 3, 0])


def test_price_is_the_kl_that_a_free_vector_removes(x64):
    """Two pairs with opposite truths share logits: the price is their divergence, ln 2 at most."""
    n = 400
    p = np.array([0.9, 0.1])
    pair = np.repeat([0, 1], n)
    targets = np.concatenate([np.arange(n) >= p[i] * n for i in range(2)]).astype(int)
    held_out = np.tile([0.0, 1.0], n)
    data = (jnp.asarray(targets), jnp.asarray(pair), jnp.asarray(held_out))
    price = jax.jit(bugs.price_bugs, static_argnums=4, static_argnames=("precision", "n_steps"))
    found = price(jnp.zeros((2 * n, 2)), *data, 2, precision=1e-2, n_steps=30)
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    np.testing.assert_allclose(found.saved, np.log(2) - entropy, atol=2e-3)
    np.testing.assert_allclose(found.saved_by_pair, np.log(2) - entropy, atol=2e-3)
    held_back = price(jnp.zeros((2 * n, 2)), *data, 2, precision=1e4, n_steps=30)
    assert 0 < held_back.saved < found.saved / 4


def test_nothing_to_save_where_the_model_is_right(x64):
    targets = jnp.array([0, 1] * 50)
    pair = jnp.repeat(jnp.array([0, 1]), 50)
    held_out = jnp.tile(jnp.array([0.0, 0.0, 1.0, 1.0]), 25)
    price = jax.jit(bugs.price_bugs, static_argnums=4, static_argnames=("precision", "n_steps"))
    found = price(jnp.zeros((100, 2)), targets, pair, held_out, 2, n_steps=20)
    np.testing.assert_allclose(found.saved, 0, atol=1e-6)


@pytest.mark.parametrize("held", [0, 4])
def test_a_price_needs_events_on_both_sides(held):
    targets, pair = jnp.array([0, 1, 0, 1]), jnp.array([0, 0, 1, 1])
    held_out = jnp.arange(4.0) < held
    with pytest.raises(ValueError, match=f"held_out holds out {held} of 4 events"):
        bugs.price_bugs(jnp.zeros((4, 2)), targets, pair, held_out.astype(float), 2)
