"""The fast transform against SciPy's matrix, and the subsampled map's mean and isometry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import hadamard

from circuitax.kernel.keys import member_keys
from circuitax.projection.maps import hadamard_transform, padded_dim, subsampled_hadamard


def test_transform_is_sylvesters_matrix(x64: None, rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 2, 16))
    expected = x @ hadamard(16) / 4
    np.testing.assert_allclose(hadamard_transform(jnp.asarray(x)), expected, atol=1e-12)


def test_transform_is_its_own_inverse(x64: None, rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.normal(size=(64,)))
    np.testing.assert_allclose(hadamard_transform(hadamard_transform(x)), x, atol=1e-12)


def test_all_rows_give_an_isometry(x64: None, rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.normal(size=(4, 11)))  # padded to 16
    y = subsampled_hadamard(jax.random.key(0), x, 16)
    np.testing.assert_allclose(y @ y.T, x @ x.T, atol=1e-12)


def test_lengths_are_kept_on_average_and_rows_do_not_repeat() -> None:
    x = jnp.ones((1, 16)).at[0, 3].set(4.0)
    keys = member_keys(jax.random.key(4), 4000)
    y = jax.vmap(lambda k: subsampled_hadamard(k, x, 5))(keys)
    ratio = np.asarray((y**2).sum((1, 2)) / (x**2).sum())
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(4000)
    # With e_1 every coordinate of the transform is ±1/√D: without repeats all lengths are equal.
    e = jnp.zeros((1, 16)).at[0, 0].set(1.0)
    np.testing.assert_allclose(
        (subsampled_hadamard(jax.random.key(1), e, 5) ** 2).sum(), 1.0, rtol=1e-6
    )


def test_padding_and_refusals() -> None:
    assert [padded_dim(n) for n in (1, 2, 3, 1000, 1024)] == [1, 2, 4, 1024, 1024]
    with pytest.raises(ValueError, match=r"dim_out=17 must be in \[1, 16\]"):
        subsampled_hadamard(jax.random.key(0), jnp.ones((2, 11)), 17)
    with pytest.raises(ValueError, match="length 12"):
        hadamard_transform(jnp.ones(12))
