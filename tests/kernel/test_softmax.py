"""S0 Definition 1 with E20, and the masked form."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.kernel.attention import masked_exponentials, masked_softmax, softmax


def test_S0_def_1_softmax(x64: None, rng: np.random.Generator) -> None:
    z = rng.standard_normal((3, 5))
    for axis in (0, 1):
        want = np.exp(z) / np.exp(z).sum(axis=axis, keepdims=True)
        got = softmax(jnp.asarray(z), axis=axis)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_allclose(got.sum(axis=axis), 1, rtol=1e-12)


def test_E20_invariant_under_multiples_of_one_only(x64: None, rng: np.random.Generator) -> None:
    z, c = rng.standard_normal(5), rng.standard_normal(5)
    same = softmax(jnp.asarray(z))
    np.testing.assert_allclose(softmax(jnp.asarray(z + 3.7)), same, rtol=1e-12)
    assert np.abs(np.asarray(softmax(jnp.asarray(z + c)) - same)).max() > 0.05, "any c in R^K"


def test_masked_sources_get_exactly_zero_and_no_gradient() -> None:
    scores = jnp.array([[1.0, 2.0, np.finfo(np.float32).max], [0.5, -1.0, 3.0]])
    mask = jnp.array([[True, True, False], [True, True, True]])
    pattern, pull = jax.vjp(lambda s: masked_softmax(s, mask), scores)
    assert pattern[0, 2] == 0
    np.testing.assert_allclose(pattern[0, :2], jax.nn.softmax(scores[0, :2]), rtol=1e-6)
    np.testing.assert_allclose(pattern.sum(axis=-1), 1, rtol=1e-6)
    (gradient,) = pull(jnp.array([[1.0, 0.0, 5.0], [1.0, 0.0, 5.0]]))
    assert np.isfinite(np.asarray(gradient)).all()
    assert gradient[0, 2] == 0
    assert gradient[1, 2] != 0


def test_a_row_without_sources_is_zero_with_finite_gradient() -> None:
    mask = jnp.array([[False, False]])
    pattern, pull = jax.vjp(lambda s: masked_softmax(s, mask), jnp.array([[1.0, 2.0]]))
    np.testing.assert_array_equal(pattern, 0)
    np.testing.assert_array_equal(pull(jnp.ones((1, 2)))[0], 0)


def test_masked_softmax_and_its_derivatives_are_those_of_the_allowed_part(
    x64: None, rng: np.random.Generator
) -> None:
    scores = jnp.asarray(700 * rng.standard_normal((2, 3, 4)))
    mask = jnp.array([[True, False, True, True], [True, True, True, True], [False] * 4])
    exponentials, total = masked_exponentials(scores, mask)
    pattern = np.asarray(exponentials / total[..., None])
    np.testing.assert_array_equal(pattern, masked_softmax(scores, mask))
    assert (np.asarray(total)[:, 2] == 1).all()
    z = np.asarray(scores)[:, 0][:, [0, 2, 3]]
    want = np.exp(z - z.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        pattern[:, 0][:, [0, 2, 3]], want / want.sum(axis=1, keepdims=True), rtol=1e-12
    )
    # The shift is not differentiated: that must not show, in any order.
    row, allowed = scores[0, 0] / 700, jnp.array([0, 2, 3])
    hessian = jax.hessian(lambda s: masked_softmax(s[None], mask[:1])[0, 0])(row)
    alone = jax.hessian(lambda s: jax.nn.softmax(s)[0])(row[allowed])
    np.testing.assert_allclose(
        hessian[allowed[:, None], allowed[None, :]], alone, rtol=1e-12, atol=1e-15
    )
    assert (np.asarray(hessian)[1] == 0).all() and (np.asarray(hessian)[:, 1] == 0).all()
