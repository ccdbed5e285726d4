"""Decoding in pieces equals the whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.cache import empty_cache
from circuitax.kernel.forward import forward
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
run = jax.jit(forward, static_argnames="outputs")


@pytest.mark.parametrize("positions", Positions)
def test_pieces_equal_the_whole(x64: None, make_transformer, positions: Positions) -> None:
    model = make_transformer(
        bias=True, mlp=True, norm=Norm.layernorm, smear=True, positions=positions
    )
    whole, _ = run(model, TOKENS)
    cache = empty_cache(model, 8)
    rows = []
    for piece in (TOKENS[:3], TOKENS[3:4], TOKENS[4:5], TOKENS[5:]):
        logits, trace = run(model, piece, cache=cache)
        cache = trace.cache
        rows.append(logits)
    np.testing.assert_allclose(jnp.concatenate(rows), whole, rtol=1e-10, atol=1e-12)
    assert int(cache.length) == 6
    alone, _ = run(model, TOKENS[3:4], cache=empty_cache(model, 8))
    assert np.abs(np.asarray(alone[0] - whole[3])).max() > 1e-3, "the cache matters"
