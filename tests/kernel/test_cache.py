"""A text read in pieces through a cache gives the rows of the text read at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.cache import empty_cache
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
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


def test_caches_need_a_causal_live_model(make_transformer) -> None:
    model = make_transformer()
    cache = empty_cache(model, 8)
    with pytest.raises(ValueError, match=r"spec\.causal=False must be True"):
        forward(model.with_options(causal=False), TOKENS, cache=cache)
    A = jnp.zeros((2, 3, 6, 6))
    frozen = Interventions(all_patterns=A)
    with pytest.raises(ValueError, match=r"interventions\.all_patterns must be None"):
        forward(model, TOKENS, frozen, cache=cache)
    frozen = Interventions(patterns=A, pattern_frozen=jnp.zeros((2, 3), bool))
    with pytest.raises(ValueError, match=r"interventions\.patterns must be None"):
        forward(model, TOKENS, frozen, cache=cache)
    with pytest.raises(ValueError, match="n_max=0 must be at least 1"):
        empty_cache(model, 0)
