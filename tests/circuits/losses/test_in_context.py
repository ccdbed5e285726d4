"""Scores of losses made by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import losses as in_context


def test_in_context_score_is_late_minus_early():
    losses = jnp.array([[5.0, 4.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    np.testing.assert_allclose(in_context.in_context_score(losses, 2, 4), [-3, 0])
    with pytest.raises(ValueError, match=r"early=2, late=5 must satisfy"):
        in_context.in_context_score(losses, 2, 5)


def test_repeated_pairs_of_any_period():
    tokens = jnp.array([0, 1, 2, 0, 1, 3, 0, 1])
    # pairs 01 12 20 01 13 30 01: the fourth and the last are repeats
    np.testing.assert_array_equal(
        in_context.repeated_pairs(tokens), [False, False, False, True, False, False, True]
    )
