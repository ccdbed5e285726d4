"""Products in the cheapest order are the same products."""

from functools import reduce
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from circuitax.kernel.chain import cheapest, multiply


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
