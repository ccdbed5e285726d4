"""Chains against their dense matrices, and the cheapest order of products."""

from functools import reduce
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.test_util import check_grads

from circuitax.kernel.chain import (
    Chain,
    add,
    apply,
    chain_of,
    cheapest,
    columns,
    diagonal,
    diagonal_rank,
    entries,
    halves,
    materialise,
    multiply,
    rows,
    scale,
    top_k,
    top_k_columns,
)


def test_the_embedding_gram_is_computed_once_for_all_heads() -> None:
    """``W_O W_U · W_E W_V`` for 4 heads: the inner product is [d, d] without a head axis."""
    W_U, W_E = jnp.ones((3, 100)), jnp.ones((100, 3))
    W_O, W_V = jnp.ones((4, 2, 3)), jnp.ones((4, 3, 2))
    jaxpr = jax.make_jaxpr(multiply)((W_O, W_U, W_E, W_V))
    shapes = [eqn.outvars[0].aval.shape for eqn in jaxpr.jaxpr.eqns if "dot" in str(eqn.primitive)]
    assert shapes[0] == (3, 3)
    assert max(int(np.prod(shape)) for shape in shapes) <= 4 * 3 * 3


@given(
    sizes=st.lists(st.sampled_from([1, 2, 5]), min_size=2, max_size=5), seed=st.integers(0, 2**16)
)
def test_any_sizes_multiply_to_the_same_matrix(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = [rng.normal(size=shape) for shape in pairwise(sizes)]
    with jax.enable_x64(True):
        product = multiply(tuple(jnp.asarray(f) for f in factors))
    np.testing.assert_allclose(product, reduce(np.matmul, factors), rtol=1e-12, atol=1e-12)


def test_the_plan_is_the_textbook_one() -> None:
    """Cormen et al., matrix-chain example: 15125 multiplications, cut after the third factor."""
    sizes = [30, 35, 15, 5, 10, 20, 25]
    plan = cheapest(tuple(pairwise(sizes)))
    assert plan(0, 6) == (15125, 3)
    assert plan(1, 5)[0] == 7125


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


def test_halves_meet_at_the_narrowest_inner_dimension(rng: np.random.Generator) -> None:
    left, right = halves(chain(draw(rng, "heads")))
    assert left.shape == (3, 7, 2) and right.shape == (3, 2, 7)
    with pytest.raises(ValueError, match="one factor"):
        halves(chain(draw(rng, "one")))


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


def test_an_index_is_of_the_maps_and_not_of_the_factors(rng) -> None:
    W_E, W_V = rng.normal(size=(5, 3)), rng.normal(size=(2, 4, 3, 2))
    chain = chain_of(W_E, W_V, rng.normal(size=(1, 4, 2, 5)))
    dense = np.asarray(materialise(chain))
    np.testing.assert_allclose(materialise(chain[1, 3]), dense[1, 3], rtol=1e-5)
    np.testing.assert_allclose(materialise(chain[1]), dense[1], rtol=1e-5)
    with pytest.raises(ValueError, match=r"index\[1\]=4 must be from 0 to 3"):
        chain[0, 4]
    with pytest.raises(IndexError, match=r"must be of the leading axes \(\)"):
        chain[1, 3][0]


def thin(rng: np.random.Generator, n: int, m: int, *batch: int) -> tuple[Chain, np.ndarray]:
    left, right = rng.normal(size=(*batch, n, 3)), rng.normal(size=(3, m))
    return chain_of(jnp.asarray(left), jnp.asarray(right)), left @ right


# 1100 columns make three tiles of 512, the last one padded; 7 rows a block leave a remainder
@pytest.mark.parametrize(("n", "m", "k"), [(20, 1100, 9), (20, 30, 30), (3, 2, 6), (20, 1100, 600)])
def test_top_k_is_the_head_of_the_sorted_matrix(
    n: int, m: int, k: int, rng: np.random.Generator, x64: None
) -> None:
    chain, truth = thin(rng, n, m)
    found = jax.jit(lambda c: top_k(c, k, block_entries=7 * m))(chain)
    np.testing.assert_allclose(found.values, np.sort(truth.ravel())[::-1][:k], rtol=1e-12)
    np.testing.assert_allclose(truth[found.rows, found.columns], found.values, rtol=1e-12)
    assert len(set(zip(found.rows.tolist(), found.columns.tolist(), strict=True))) == k


@pytest.mark.parametrize(("m", "k"), [(1100, 9), (30, 4), (1100, 600)])
def test_top_k_columns_is_the_head_of_every_sorted_row(
    m: int, k: int, rng: np.random.Generator, x64: None
) -> None:
    chain, truth = thin(rng, 8, m)
    found = jax.jit(lambda c: top_k_columns(c, k, block_entries=3 * m))(chain)
    np.testing.assert_allclose(found.values, -np.sort(-truth, axis=1)[:, :k], rtol=1e-12)
    np.testing.assert_allclose(
        np.take_along_axis(truth, np.asarray(found.columns), axis=1), found.values, rtol=1e-12
    )


def test_negative_entries_win_over_padding(x64: None) -> None:
    chain = chain_of(-jnp.ones((2, 1)), jnp.arange(1.0, 701.0)[None, :])
    found = jax.jit(lambda c: top_k_columns(c, 2))(chain)
    np.testing.assert_array_equal(found.columns, [[0, 1], [0, 1]])
    np.testing.assert_array_equal(found.values, [[-1, -2], [-1, -2]])


def test_the_smallest_are_the_largest_of_the_negative(rng: np.random.Generator, x64: None) -> None:
    chain, truth = thin(rng, 6, 5)
    found = jax.jit(lambda c: top_k(scale(c, -1.0), 4))(chain)
    np.testing.assert_allclose(-found.values, np.sort(truth.ravel())[:4], rtol=1e-12)


def test_batches_and_dense_chains(rng: np.random.Generator, x64: None) -> None:
    chain, truth = thin(rng, 6, 5, 2, 3)
    found = jax.jit(lambda c: top_k(c, 4))(chain)
    assert found.values.shape == (2, 3, 4)
    np.testing.assert_allclose(
        found.values, -np.sort(-truth.reshape(2, 3, -1), axis=-1)[..., :4], rtol=1e-12
    )
    one = jax.jit(lambda c: top_k(c, 4))(chain_of(jnp.asarray(truth[1, 2])))
    np.testing.assert_allclose(one.values, found.values[1, 2], rtol=1e-12)
    np.testing.assert_array_equal(one.columns, found.columns[1, 2])
    mapped = jax.jit(jax.vmap(lambda left: top_k(chain_of(left, chain.factors[1]), 4).values))
    np.testing.assert_allclose(mapped(chain.factors[0][0]), found.values[0], rtol=1e-12)


def test_diagonal_rank_counts_the_entries_above(rng: np.random.Generator, x64: None) -> None:
    chain, truth = thin(rng, 6, 7, 2)
    expected = (truth > np.diagonal(truth, axis1=1, axis2=2)[..., None]).sum(-1)
    found = jax.jit(lambda c: diagonal_rank(c, block_entries=20))(chain)
    np.testing.assert_array_equal(found, expected)
    assert expected.min() < expected.max()
    # a copying head: the diagonal is the largest entry of every row
    Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    copying = chain_of(jnp.asarray(Q), jnp.asarray(Q.T))
    np.testing.assert_array_equal(jax.jit(diagonal_rank)(copying), np.zeros(6))


def test_values_are_differentiable(rng: np.random.Generator, x64: None) -> None:
    chain, _ = thin(rng, 6, 700)
    for search in (top_k, top_k_columns):
        values = jax.jit(lambda c, search=search: search(c, 3).values)
        check_grads(values, (chain,), order=1, modes=["rev"], rtol=1e-6)


def test_the_dense_matrix_is_never_made() -> None:
    n, block = 4096, 2**14
    chain = chain_of(jnp.ones((n, 2)), jnp.ones((2, n)))
    for search in (
        lambda c: top_k(c, 5, block_entries=block).values,
        lambda c: top_k_columns(c, 5, block_entries=block).values,
        lambda c: diagonal_rank(c, block_entries=block),
    ):
        memory = jax.jit(search).lower(chain).compile().memory_analysis()
        assert memory.temp_size_in_bytes < n * n  # a quarter of the dense float32 matrix
    gradient = jax.grad(lambda c: top_k_columns(c, 5, block_entries=block).values.sum())
    memory = jax.jit(gradient).lower(chain).compile().memory_analysis()
    assert memory.temp_size_in_bytes < n * n
