"""Losses against hand cases and NumPy; both conventions of the toy loss (E17)."""

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.expected_loss import Convention
from circuitax.training.toy import weighted_squared_error


def test_hand_case() -> None:
    target, output = jnp.array([[1.0, 2.0], [0.0, 1.0]]), jnp.array([[0.0, 0.0], [0.0, 4.0]])
    importance = jnp.array([1.0, 0.5])
    # Sample 1: 1 + 0.5 * 4 = 3; sample 2: 0 + 0.5 * 9 = 4.5.
    assert float(weighted_squared_error(target, output, importance, "sum")) == 3.75
    assert float(weighted_squared_error(target, output, importance, Convention.mean)) == 1.875


def test_E17_sum_and_mean_differ_by_the_number_of_features(
    x64: None, rng: np.random.Generator
) -> None:
    target, output = rng.normal(size=(2, 3, 7, 5))
    importance = rng.uniform(size=5)
    total = np.einsum("abi,i->ab", (target - output) ** 2, importance).mean()
    args = jnp.array(target), jnp.array(output), jnp.array(importance)
    np.testing.assert_allclose(weighted_squared_error(*args, Convention.sum), total, rtol=1e-12)
    np.testing.assert_allclose(
        weighted_squared_error(*args, Convention.mean), total / 5, rtol=1e-12
    )


def test_E17_importance_is_outside_the_square(x64: None) -> None:
    target, output, importance = jnp.array([2.0]), jnp.array([0.0]), jnp.array([3.0])
    got = float(weighted_squared_error(target, output, importance, "sum"))
    assert got == 3 * 2**2
    assert got != (3 * 2) ** 2  # the paper's other formula


def test_feature_axis_first_is_the_transpose(rng: np.random.Generator) -> None:
    target, output = jnp.array(rng.normal(size=(2, 6, 3)))
    importance = jnp.array(rng.uniform(size=3))
    rows = weighted_squared_error(target, output, importance, "sum")
    columns = weighted_squared_error(target.T, output.T, importance, "sum", feature_axis=0)
    np.testing.assert_allclose(rows, columns, rtol=1e-6)


def test_errors_name_the_argument() -> None:
    x = jnp.ones((2, 3))
    with pytest.raises(ValueError, match="importance has 2 entries, must have one per feature, 3"):
        weighted_squared_error(x, x, jnp.ones(2), "sum")
    with pytest.raises(ValueError, match=r"importance\[1\]=-1.0 must be at least 0"):
        weighted_squared_error(x, x, jnp.array([1.0, -1.0, 1.0]), "sum")
    with pytest.raises(ValueError, match="convention='median' must be one of sum, mean"):
        weighted_squared_error(x, x, jnp.ones(3), "median")
