"""A text read in pieces through a cache gives the rows of the text read at once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.cache import empty_cache
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import Interventions
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import ForwardSpec

TOKENS = jnp.array([3, 1, 4, 1, 5, 9])
run = jax.jit(forward, static_argnames="spec")


@pytest.mark.parametrize("positions", Positions)
def test_pieces_equal_the_whole(x64: None, make_transformer, positions: Positions) -> None:
    weights = make_transformer(bias=True, mlp=True, norm=True, smear=True, table=True)
    spec = ForwardSpec(0.5, positions=positions, norm=Norm.layernorm, final_norm=True)
    whole, _ = run(weights, TOKENS, spec)
    cache = empty_cache(weights, 8)
    rows = []
    for piece in (TOKENS[:3], TOKENS[3:4], TOKENS[4:5], TOKENS[5:]):
        logits, trace = run(weights, piece, spec, cache=cache)
        cache = trace.cache
        rows.append(logits)
    np.testing.assert_allclose(jnp.concatenate(rows), whole, rtol=1e-10, atol=1e-12)
    assert int(cache.length) == 6
    alone, _ = run(weights, TOKENS[3:4], spec, cache=empty_cache(weights, 8))
    assert np.abs(np.asarray(alone[0] - whole[3])).max() > 1e-3, "the cache matters"


def test_caches_need_a_causal_live_model(make_transformer) -> None:
    weights = make_transformer()
    cache = empty_cache(weights, 8)
    spec = ForwardSpec(0.5)
    with pytest.raises(ValueError, match=r"spec\.causal=False must be True"):
        forward(weights, TOKENS, dataclasses.replace(spec, causal=False), cache=cache)
    frozen = Interventions(patterns=jnp.zeros((2, 3, 6, 6)))
    with pytest.raises(ValueError, match=r"interventions\.patterns must be None"):
        forward(weights, TOKENS, spec, frozen, cache=cache)
    with pytest.raises(ValueError, match="n_max=0 must be at least 1"):
        empty_cache(weights, 0)
