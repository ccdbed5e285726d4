"""Overlaps of subspaces against SciPy's principal angles and the invariance argument."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import subspace_angles

from circuitax.circuits.weights import spectra


def test_principal_angles_are_scipys(rng, x64):
    x, y = rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    found = spectra.principal_cosines(jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(found, np.sort(np.cos(subspace_angles(x, y)))[::-1], atol=1e-12)
    value = spectra.overlap(jnp.asarray(x), jnp.asarray(y)).value
    np.testing.assert_allclose(value, np.mean(np.cos(subspace_angles(x, y)) ** 2), atol=1e-12)


def test_overlap_does_not_see_the_basis_and_averages_to_its_null(rng):
    x = jnp.asarray(rng.normal(size=(9, 4)), jnp.float32)
    inside = x[:, :2] @ jnp.array([[2.0, 1.0], [0.5, -3.0]])
    np.testing.assert_allclose(spectra.overlap(x, inside).value, 1, atol=1e-5)
    many = jnp.asarray(rng.normal(size=(400, 9, 2)), jnp.float32)
    found = jax.jit(jax.vmap(lambda y: spectra.overlap(x, y).value))(many)
    null = spectra.overlap(x, many[0]).null
    assert null == 4 / 9
    assert abs(found.mean() - null) < 5 * found.std() / 20


@pytest.mark.parametrize(("a", "b"), [(4, 2), (2, 4), (3, 3)])
def test_overlap_spreads_as_stated(a, b, rng, x64):
    """Against 4,000 random pairs: the standard deviation has an error of about 1.1 %."""
    x, y = (jnp.asarray(rng.normal(size=(4000, 9, k))) for k in (a, b))
    found = jax.jit(lambda x, y: spectra.overlap(x, y).value)(x, y)
    std = spectra.overlap(x[0], y[0]).std
    np.testing.assert_allclose(found.std(ddof=1), std, rtol=0.06)
    assert spectra.overlap(jnp.eye(3), jnp.eye(3)[:, :1]).std == 0


def test_bandwidth_by_hand():
    """Two writers on the same plane of a 4-space: half is used, and all of it twice."""
    plane = jnp.eye(4)[:2]
    same = spectra.bandwidth(jnp.stack([plane, 3 * plane]))
    np.testing.assert_allclose([same.written, same.effective, same.reused], [1, 0.5, 1], atol=1e-6)
    apart = spectra.bandwidth(jnp.stack([plane, jnp.eye(4)[2:]]))
    np.testing.assert_allclose([apart.written, apart.effective, apart.reused], [1, 1, 0], atol=1e-6)


def test_streams_of_two_widths_are_refused():
    x, y = jnp.eye(7)[:, :3], jnp.eye(8)[:, :2]
    for read in (spectra.overlap, spectra.principal_cosines):
        with pytest.raises(ValueError, match="y has d_model=8, must have that of x, 7"):
            read(x, y)


def test_more_columns_than_the_stream_has_dimensions_are_refused():
    with pytest.raises(ValueError, match="x has k=5 columns, must have at least 1 and at most d_m"):
        spectra.overlap(jnp.eye(3, 5), jnp.eye(3)[:, :1])
    with pytest.raises(ValueError, match="y has k=0 columns"):
        spectra.overlap(jnp.eye(3), jnp.eye(3)[:, :0])
    with pytest.raises(
        ValueError, match=r"W_O has shape \(3, 3\), must be \[n_writers, k, d_model"
    ):
        spectra.bandwidth(jnp.eye(3))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_maps_of_lower_rank_are_refused(scale, rng):
    """A regression: of two equal columns, one gave an arbitrary direction to the overlap."""
    whole = jnp.asarray(rng.normal(size=(9, 3)), jnp.float32) * scale
    other = jnp.asarray(rng.normal(size=(9, 2)), jnp.float32)
    deficient = whole.at[:, 2].set(whole[:, 0] - 2 * whole[:, 1])
    assert np.isfinite(spectra.overlap(whole, other).value)
    message = "has linearly dependent columns, must have full column rank k=3"
    with pytest.raises(ValueError, match=f"x {message}"):
        spectra.overlap(deficient, other)
    with pytest.raises(ValueError, match=f"y {message}"):
        spectra.principal_cosines(other, jnp.zeros((9, 3)))
    with pytest.raises(ValueError, match=f"the transpose of W_O {message}"):
        spectra.bandwidth(jnp.stack([whole.T, deficient.T]))


def test_under_jit_maps_of_lower_rank_are_nan_and_the_others_are_not(rng):
    whole = jnp.asarray(rng.normal(size=(9, 3)), jnp.float32)
    deficient = whole.at[:, 2].set(whole[:, 0])
    other = jnp.asarray(rng.normal(size=(9, 2)), jnp.float32)
    value = jax.jit(jax.vmap(lambda x: spectra.overlap(x, other).value))
    found = value(jnp.stack([whole, deficient]))
    np.testing.assert_allclose(found[0], spectra.overlap(whole, other).value, rtol=1e-6)
    assert np.isnan(found[1])
    assert np.isfinite(jax.grad(lambda x: value(x[None])[0])(whole)).all()
