"""Chains against dense NumPy matrices that the library never makes."""

from functools import reduce

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from circuitax.kernel.chain import (
    Chain,
    add,
    apply,
    chain_of,
    columns,
    diagonal,
    entries,
    halves,
    materialise,
    rows,
    scale,
)

# (leading axes of each factor, outer and inner sizes): one factor, narrow middle, narrow end,
# an unbatched embedding beside stacked heads
CASES = {
    "one": [((), 4, 5)],
    "thin": [((), 6, 2), ((), 2, 6)],
    "narrow end": [((), 3, 5), ((), 5, 4), ((), 4, 7)],
    "heads": [((), 7, 4), ((3,), 4, 2), ((3,), 2, 4), ((), 4, 7)],
}


def draw(rng: np.random.Generator, name: str) -> list[np.ndarray]:
    return [rng.normal(size=(*batch, n, m)) for batch, n, m in CASES[name]]


def dense(factors: list[np.ndarray]) -> np.ndarray:
    return reduce(np.matmul, factors)


def chain(factors: list[np.ndarray]) -> Chain:
    return chain_of(*(jnp.asarray(f) for f in factors))


@pytest.mark.parametrize("name", CASES)
def test_every_reading_agrees_with_the_dense_matrix(
    name: str, rng: np.random.Generator, x64: None
) -> None:
    factors = draw(rng, name)
    m, truth = chain(factors), dense(factors)
    x = rng.normal(size=(5, truth.shape[-2]))
    near = {"rtol": 1e-12, "atol": 1e-12}
    assert m.shape == truth.shape
    np.testing.assert_allclose(materialise(m), truth, **near)
    np.testing.assert_allclose(apply(jnp.asarray(x), m), x @ truth, **near)
    np.testing.assert_allclose(materialise(m.T), np.swapaxes(truth, -1, -2), **near)
    np.testing.assert_allclose(diagonal(m), np.diagonal(truth, axis1=-2, axis2=-1), **near)
    i, j = np.array([0, 2, 1, 0]), np.array([3, 0, 0, 1])
    np.testing.assert_allclose(entries(m, jnp.asarray(i), jnp.asarray(j)), truth[..., i, j], **near)
    np.testing.assert_allclose(
        materialise(columns(rows(m, slice(1, 3)), jnp.asarray(j))),
        truth[..., 1:3, :][..., j],
        **near,
    )
    np.testing.assert_allclose(materialise(scale(m, -2.5)), -2.5 * truth, **near)


def test_composition_is_in_row_order_and_only_lengthens(
    rng: np.random.Generator, x64: None
) -> None:
    first, then = rng.normal(size=(4, 5)), rng.normal(size=(5, 3))
    m = chain([first]) @ chain([then]) @ jnp.eye(3)
    assert len(m.factors) == 3
    np.testing.assert_allclose(materialise(m), first @ then, rtol=1e-12)
    np.testing.assert_allclose(materialise(first @ chain([then])), first @ then, rtol=1e-12)
    np.testing.assert_allclose(
        materialise(jnp.asarray(first) @ chain([then])), first @ then, rtol=1e-12
    )
    with pytest.raises(ValueError, match="rows must match the 3 columns"):
        chain([then]) @ chain([first])


def test_sums_and_multiples_of_maps_are_chains_of_added_rank(
    rng: np.random.Generator, x64: None
) -> None:
    for one, two in (("thin", "thin"), ("heads", "heads"), ("one", "one")):
        x, y = draw(rng, one), draw(rng, two)
        total = chain(x) + chain(y)
        assert len(total.factors) == 2
        np.testing.assert_allclose(materialise(total), dense(x) + dense(y), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(materialise(2.0 * chain(x) * -1.0), -2.0 * dense(x), rtol=1e-12)
    assert (chain(draw(rng, "thin")) + chain(draw(rng, "thin"))).dims == (6, 4, 6)
    with pytest.raises(ValueError, match=r"second has shape \(4, 5\)"):
        add(chain(draw(rng, "thin")), chain(draw(rng, "one")))


def test_a_batch_of_scales_makes_a_batch_of_chains(rng: np.random.Generator, x64: None) -> None:
    factors = draw(rng, "thin")
    scaled = scale(chain(factors), jnp.array([1.0, 2.0, -3.0]))
    np.testing.assert_allclose(
        materialise(scaled), np.array([1.0, 2.0, -3.0])[:, None, None] * dense(factors), rtol=1e-12
    )


def test_halves_meet_at_the_narrowest_inner_dimension(rng: np.random.Generator) -> None:
    left, right = halves(chain(draw(rng, "heads")))
    assert left.shape == (3, 7, 2) and right.shape == (3, 2, 7)
    with pytest.raises(ValueError, match="one factor"):
        halves(chain(draw(rng, "one")))


def test_jit_vmap_and_grad_grid(rng: np.random.Generator, x64: None) -> None:
    factors = draw(rng, "heads")
    m, truth = chain(factors), dense(factors)
    x = jnp.asarray(rng.normal(size=(2, 7)))
    i = jnp.array([0, 6])
    np.testing.assert_allclose(jax.jit(apply)(x, m), np.asarray(x) @ truth, rtol=1e-12, atol=1e-12)
    heads = jax.vmap(diagonal, in_axes=(Chain((None, 0, 0, None)),))(m)  # type: ignore[arg-type]
    np.testing.assert_allclose(heads, np.diagonal(truth, axis1=1, axis2=2), rtol=1e-12)
    for read in (
        lambda m: apply(x, m),
        diagonal,
        lambda m: entries(m, i, i),
        lambda m: scale(m, 2.0),
    ):
        check_grads(jax.jit(read), (m,), order=1, modes=["rev"], rtol=1e-6)


def test_float32_chains_stay_float32(rng: np.random.Generator) -> None:
    factors = draw(rng, "heads")
    m = chain([f.astype(np.float32) for f in factors])
    chex.assert_type(jax.tree.leaves((materialise(m), scale(m, 2.0), diagonal(m))), jnp.float32)
    np.testing.assert_allclose(materialise(m), dense(factors), rtol=1e-5, atol=1e-5)


def test_bad_chains_are_named() -> None:
    two, three = jnp.ones((2, 2)), jnp.ones((3, 3))
    with pytest.raises(ValueError, match=r"factors=\(\)"):
        chain_of()
    with pytest.raises(ValueError, match=r"factors\[0\] has shape \(2,\)"):
        chain_of(jnp.ones(2))
    with pytest.raises(ValueError, match=r"factors\[1\] has shape \(3, 3\)"):
        chain_of(two, three)
    with pytest.raises(ValueError, match="leading axes must broadcast"):
        chain_of(jnp.ones((2, 3, 3)), jnp.ones((4, 3, 3)))
    with pytest.raises(ValueError, match="max_entries=3"):
        materialise(chain_of(two, two), max_entries=3)
    for read in (rows, columns):
        with pytest.raises(ValueError, match="index has 0 axes"):
            read(chain_of(two), 1)


def test_differences_and_quotients(rng: np.random.Generator, x64: None) -> None:
    x, y = (draw(rng, "heads") for _ in range(2))
    first, second = chain_of(*x), chain_of(*y)
    near = {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(materialise(first - second), dense(x) - dense(y), **near)
    np.testing.assert_allclose(materialise(-first), -dense(x), **near)
    np.testing.assert_allclose(materialise(first / 4), dense(x) / 4, **near)
    each = jnp.array([1.0, 2.0, 4.0])
    halved = materialise(first / each)
    np.testing.assert_allclose(halved, dense(x) / np.array([1, 2, 4])[:, None, None], **near)


@pytest.mark.parametrize("read", [np.asarray, np.array, np.linalg.norm, np.mean, jnp.linalg.norm])
def test_a_chain_is_no_array(rng: np.random.Generator, read) -> None:
    """Square factors would be stacked without a word: the norm of a stack is not a chain's."""
    chain = chain_of(*(rng.normal(size=(3, 3)) for _ in range(2)))
    with pytest.raises((ValueError, TypeError), match=r"Chain|chain of shape \(3, 3\) is no array"):
        read(chain)
