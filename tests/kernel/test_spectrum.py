"""Spectra of chains against their dense matrices in float64."""

from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel import spectrum
from circuitax.kernel.chain import Chain, chain_of
from circuitax.kernel.spectrum import Cycle, cyclic

SHAPES = {
    "one": [((), 4, 4)],
    "thin": [((), 6, 2), ((), 2, 6)],
    "narrow end": [((), 3, 5), ((), 5, 4), ((), 4, 3)],
    "heads": [((), 7, 4), ((3,), 4, 2), ((3,), 2, 4), ((), 4, 7)],
}
cases = pytest.mark.parametrize("name", SHAPES)


def draw(rng: np.random.Generator, name: str) -> tuple[Chain, np.ndarray]:
    factors = [rng.normal(size=(*batch, n, m)) for batch, n, m in SHAPES[name]]
    return chain_of(*(jnp.asarray(f) for f in factors)), reduce(np.matmul, factors)


def by_size(values: np.ndarray, n: int) -> np.ndarray:
    """The n largest in modulus, conjugate pairs in a fixed order."""
    order = np.lexsort((values.imag, values.real, -np.round(np.abs(values), 9)))
    return values[order][:n]


@cases
def test_trace_norm_and_eigenvalues_of_the_dense_matrix(
    name: str, rng: np.random.Generator, x64: None
) -> None:
    m, truth = draw(rng, name)
    np.testing.assert_allclose(spectrum.trace(m), np.trace(truth, axis1=-2, axis2=-1), rtol=1e-12)
    np.testing.assert_allclose(spectrum.norm(m), np.linalg.norm(truth, axis=(-2, -1)), rtol=1e-12)
    narrow = min(m.dims)
    ours = np.asarray(spectrum.eigenvalues(cyclic(m))).reshape(-1, narrow)
    theirs = np.linalg.eigvals(truth).reshape(-1, truth.shape[-1])
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(by_size(found, narrow), by_size(expected, narrow), rtol=1e-10)
    powers = [np.trace(np.linalg.matrix_power(truth, i), axis1=-2, axis2=-1) for i in (1, 2, 3)]
    np.testing.assert_allclose(
        spectrum.power_sums(cyclic(m), 3), np.stack(powers, axis=-1), rtol=1e-11
    )


@cases
def test_singular_values_of_the_dense_matrix(
    name: str, rng: np.random.Generator, x64: None
) -> None:
    m, truth = draw(rng, name)
    expected = np.linalg.svd(truth, compute_uv=False)[..., : min(m.dims)]
    np.testing.assert_allclose(spectrum.singular_values(m), expected, rtol=1e-11)
    np.testing.assert_allclose(spectrum.gram_singular_values(m), expected, rtol=1e-7, atol=1e-7)


def test_E15_a_cyclic_shift_keeps_eigenvalues_and_changes_norms(
    rng: np.random.Generator, x64: None
) -> None:
    """Corrected: ‖L R‖ by Grams. Printed: ‖R L‖, the norm of the shifted product."""
    m, truth = draw(rng, "thin")
    shifted = cyclic(m)
    right = np.linalg.norm(truth)
    wrong = np.linalg.norm(np.asarray(shifted.core))
    np.testing.assert_allclose(spectrum.norm(m), right, rtol=1e-12)
    assert abs(wrong - right) > 0.1 * right
    np.testing.assert_allclose(np.trace(shifted.core), np.trace(truth), rtol=1e-12)
    # the shifted product is another type, and no norm or singular value accepts it
    assert not isinstance(shifted, Chain)
    for reading in (
        spectrum.norm,
        spectrum.singular_values,
        spectrum.gram_singular_values,
    ):
        # beartype stops it in tests; without the hook the missing attribute does
        with pytest.raises(Exception, match=r"Cycle|factors") as stopped:
            reading(shifted)  # type: ignore[operator]
        assert not isinstance(stopped.value, AssertionError)
    assert set(Cycle._fields) == {"core"}


def test_inner_product_of_two_chains_of_different_length(
    rng: np.random.Generator, x64: None
) -> None:
    (x, dense_x), (y, dense_y) = draw(rng, "heads"), draw(rng, "heads")
    np.testing.assert_allclose(spectrum.inner(x, y), (dense_x * dense_y).sum((-2, -1)), rtol=1e-11)
    flat = chain_of(jnp.asarray(dense_y))
    np.testing.assert_allclose(spectrum.inner(x, flat), spectrum.inner(x, y), rtol=1e-11)


def test_norms_of_all_pairs_of_heads_multiply_the_core_between_them_once(
    rng: np.random.Generator, x64: None
) -> None:
    """Composition of 3 earlier and 2 later heads, ``‖V_1 O_1 V_2 O_2‖``, by broadcast batches."""
    V, O = rng.normal(size=(3, 1, 9, 2)), rng.normal(size=(3, 1, 2, 9))
    V2, O2 = rng.normal(size=(2, 9, 2)), rng.normal(size=(2, 2, 9))
    pairs = chain_of(V, O) @ chain_of(V2, O2)
    expected = np.linalg.norm(V @ O @ V2 @ O2, axis=(-2, -1))
    np.testing.assert_allclose(spectrum.norm(pairs), expected, rtol=1e-12)
    products = [
        eqn.outvars[0].aval.shape
        for eqn in jax.make_jaxpr(spectrum.norm)(pairs).jaxpr.eqns
        if eqn.primitive.name == "dot_general"
    ]
    assert products.count((3, 2, 2, 2)) <= 3  # the core and its two products with Grams
    assert all(max(shape) <= 3 for shape in products)  # nothing of size d_model is made


def test_float32_and_the_gradient_at_zero(rng: np.random.Generator) -> None:
    m, truth = draw(rng, "thin")
    np.testing.assert_allclose(spectrum.norm(m), np.linalg.norm(truth), rtol=1e-5)
    assert spectrum.norm(m).dtype == jnp.float32
    nothing = chain_of(jnp.zeros((3, 2)), jnp.zeros((2, 3)))
    value, gradient = jax.jit(jax.value_and_grad(spectrum.norm))(nothing)
    assert value == 0
    assert all(np.all(np.asarray(g) == 0) for g in jax.tree.leaves(gradient))


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_weights_of_any_scale_have_the_spectra_of_dense_float64(
    scale: float, rng: np.random.Generator
) -> None:
    """Fourth powers of factors leave float32 at 1e-12; factors are scaled first."""
    L, R = scale * rng.normal(size=(3, 9, 4)), scale * rng.normal(size=(3, 4, 9))
    values = np.linalg.svd(L @ R, compute_uv=False)[:, :4]
    m = chain_of(jnp.asarray(L, jnp.float32), jnp.asarray(R, jnp.float32))
    np.testing.assert_allclose(jax.jit(spectrum.norm)(m), np.linalg.norm(L @ R, axis=(1, 2)), 1e-5)
    np.testing.assert_allclose(spectrum.singular_values(m), values, 1e-4)
    np.testing.assert_allclose(spectrum.gram_singular_values(m), values, 1e-3)
    slope = jax.grad(lambda m: spectrum.norm(m).sum())(m).factors[0]
    by_hand = L @ R @ R.swapaxes(1, 2) / np.linalg.norm(L @ R, axis=(1, 2))[:, None, None]
    np.testing.assert_allclose(slope, by_hand, 1e-4, 1e-5 * np.abs(by_hand).max())


def test_a_rank_deficient_chain_has_gram_singular_values(rng: np.random.Generator) -> None:
    left = np.outer(rng.normal(size=5), [1.0, 2.0])
    right = rng.normal(size=(2, 5))
    found = spectrum.gram_singular_values(chain_of(jnp.asarray(left), jnp.asarray(right)))
    expected = np.linalg.svd(left @ right, compute_uv=False)[:2]
    np.testing.assert_allclose(found, expected, atol=3e-3 * expected[0])


def test_a_rectangular_chain_has_no_eigenvalues(rng: np.random.Generator) -> None:
    chain = chain_of(rng.normal(size=(4, 2)), rng.normal(size=(2, 5)))
    for use in (cyclic, spectrum.trace):
        with pytest.raises(ValueError, match=r"\(4, 5\), must be square to have a trace and eigen"):
            use(chain)
