import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition import features


def polygon(k, norm=1.0):
    angle = 2 * np.pi * np.arange(k) / k
    return norm * np.stack([np.cos(angle), np.sin(angle)])


def test_E17_superposition_colour_squared_in_the_text_and_rooted_in_the_code(x64):
    W = jnp.array([[1.0, -0.5, 0.0], [0.0, 0.0, 2.0]])
    np.testing.assert_allclose(features.interference_sq(W), [0.25, 1, 0], atol=1e-15)
    np.testing.assert_allclose(features.interference_root(W), [0.5, 1, 0], atol=1e-15)


def test_dimensionality_of_polygons_is_two_over_k(x64):
    for k in (3, 5, 6):
        W = jnp.asarray(polygon(k, 1.135))
        np.testing.assert_allclose(features.dimensionality(W), 2 / k, rtol=1e-13)
    assert float(features.dimensions_per_feature(jnp.asarray(polygon(5, 1.135)))) == pytest.approx(
        2 / (5 * 1.135**2), rel=1e-13
    )


def test_T6_dimensionality_never_exceeds_leverage_and_sums_to_at_most_the_rank(x64, rng):
    W = jnp.asarray(rng.normal(size=(3, 7)))
    D, leverage = features.dimensionality(W), features.leverage(W)
    assert (leverage + 1e-12 >= D).all() and (leverage - 1e-3 > D).any()
    assert float(leverage.sum()) == pytest.approx(3, rel=1e-12)
    capacity = np.linalg.norm(W, axis=0) ** 4 / np.sum(np.asarray(W.T @ W) ** 2, axis=1)
    np.testing.assert_allclose(D, capacity, rtol=1e-12)


def test_T6_sum_is_the_rank_for_a_tegum_product_of_tight_frames(x64):
    """A triangular bipyramid: three features at 2/3 and two at 1/2, not five at 3/5."""
    W = np.zeros((3, 5))
    W[:2, :3], W[2, 3:] = polygon(3), [1, -1]
    D = features.dimensionality(jnp.asarray(W))
    np.testing.assert_allclose(D, [2 / 3] * 3 + [1 / 2] * 2, rtol=1e-13)
    assert float(D.sum()) == pytest.approx(3, rel=1e-13)


def test_rank_deficient_leverage_sums_to_the_rank(x64):
    W = jnp.array([[1.0, 2, -1], [2.0, 4, -2]])
    assert float(features.leverage(W).sum()) == pytest.approx(1, rel=1e-10)


def test_zero_features_have_zero_measures_and_finite_gradients(x64):
    W = jnp.array([[1.0, 0.0, 0.3], [0.0, 0.0, 0.4]])
    for measure in (
        features.norms,
        features.interference_sq,
        features.interference_root,
        features.dimensionality,
    ):
        assert float(measure(W)[1]) == 0
        assert np.isfinite(jax.grad(lambda V, f=measure: f(V).sum())(W)).all(), measure.__name__


def test_norms_and_gram_under_vmap(rng):
    W = rng.normal(size=(4, 2, 5)).astype(np.float32)
    batch = jnp.asarray(W)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(features.norms))(batch), np.linalg.norm(W, axis=1), rtol=1e-5
    )
    np.testing.assert_allclose(
        jax.vmap(features.gram)(batch), np.einsum("bmi,bmj->bij", W, W), atol=1e-5
    )
