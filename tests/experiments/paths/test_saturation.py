import jax
import jax.numpy as jnp
import numpy as np

from experiments.paths.score_scale.saturation import jacobian_norm, row_entropy


def test_uniform_and_saturated_rows() -> None:
    A = jnp.array([[0.25] * 4, [1.0, 0, 0, 0]])
    np.testing.assert_allclose(row_entropy(A), [np.log(4), 0], atol=1e-6)
    np.testing.assert_allclose(jacobian_norm(A), [np.sqrt(3) / 4, 0], atol=1e-6)


def test_norm_against_the_jacobian_itself(x64: None) -> None:
    scores = jax.random.normal(jax.random.key(0), (5, 7)) * 3
    J = jax.vmap(jax.jacobian(jax.nn.softmax))(scores)
    by_hand = np.linalg.norm(np.asarray(J), axis=(1, 2))
    np.testing.assert_allclose(jacobian_norm(jax.nn.softmax(scores)), by_hand, rtol=1e-12)


def test_entropy_against_scipy() -> None:
    from scipy import stats

    A = jax.nn.softmax(jax.random.normal(jax.random.key(1), (2, 3, 6)) * 4)
    np.testing.assert_allclose(
        row_entropy(A), stats.entropy(np.asarray(A, float), axis=-1), rtol=1e-5
    )
