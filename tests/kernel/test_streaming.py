"""The largest entries of a chain's matrix, against sorting it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from circuitax.kernel.chain import Chain, chain_of, scale
from circuitax.kernel.streaming import diagonal_rank, top_k, top_k_columns


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
