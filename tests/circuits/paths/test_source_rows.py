"""Rows of sources: each at all of its positions, in one block, which begins in time."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from circuitax.circuits.paths.source_rows import of_blocks, source_rows


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=60), st.integers(7, 130))
def test_every_position_that_a_source_reaches_has_a_row_in_its_block(
    sources: list[tuple[int, int]], n_ctx: int
) -> None:
    first, layers = [at for at, _ in sources], [layer for _, layer in sources]
    source, place, begins, of = map(np.asarray, source_rows(first, layers, n_ctx))
    n_rows = source.size // begins.size
    empty = of[-1, 0]
    assert source[empty] == len(first) and (of[-1] == empty).all()
    for each, (at, layer) in enumerate(sources):
        own = of[each, at:]
        assert (source[own] == each).all() and place[own].tolist() == list(range(at, n_ctx))
        assert (of[each, :at] == empty).all()
        block = np.unique(own // n_rows)
        assert block.size == 1 and begins[block[0]] <= layer
    assert (source < len(first)).sum() == sum(n_ctx - at for at in first)
    for block, begun in enumerate(begins):
        held = source[block * n_rows : (block + 1) * n_rows]
        written = [layers[each] for each in held if each < len(first)]
        assert begun == min(written, default=np.iinfo(np.int32).max)


def test_late_sources_wait_in_blocks_of_their_own() -> None:
    # A block has 150 rows: of four sources of 50 one waits, which begins in layer 5, with the empty
    # one.
    begins = np.asarray(source_rows([0, 0, 0, 0], [0, 5, 0, 2], 50).begins)
    assert begins.tolist() == [0, 5]


def test_blocks_that_have_not_begun_are_zero() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 6, 3))
    begun = jnp.array([True, False, True])
    found, negated = of_blocks(begun, lambda x, y: (x @ y.T, -x), jnp.asarray(x), jnp.asarray(y))
    want = np.concatenate([x[i : i + 2] @ y[i : i + 2].T for i in (0, 2, 4)])
    want[2:4] = 0
    np.testing.assert_allclose(found, want, rtol=1e-5)
    np.testing.assert_allclose(negated, np.where(np.arange(6)[:, None] // 2 == 1, 0, -x), rtol=1e-6)
    slope = jax.grad(lambda x: of_blocks(begun, jnp.sin, x)[:4].sum())(jnp.asarray(x))
    np.testing.assert_allclose(slope[:2], np.cos(x[:2]), rtol=1e-5)
    assert not np.asarray(slope[2:]).any()
