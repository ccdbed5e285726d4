"""One pair under many maps is what projecting it map by map gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import member_keys
from circuitax.projection.maps import MapFamily, MapSpec, pair_ratios, project


def test_each_map_is_the_solo_projection() -> None:
    spec = MapSpec(MapFamily.achlioptas, 9, 4)
    keys = member_keys(jax.random.key(0), 5)
    x, y = jnp.arange(9.0), jnp.ones(9)
    ratios = np.asarray(pair_ratios(keys, x - y, spec, batch=2))
    for k in range(5):
        u, v = np.asarray(project(keys[k], x, spec)), np.asarray(project(keys[k], y, spec))
        expected = ((u - v) ** 2).sum() / ((np.arange(9.0) - 1) ** 2).sum()
        np.testing.assert_allclose(ratios[k], expected, rtol=1e-5)


def test_a_compiled_function_may_close_over_the_pair() -> None:
    spec, keys = MapSpec(MapFamily.gaussian, 9, 4), member_keys(jax.random.key(0), 5)
    z, zero = jnp.arange(9.0), jnp.zeros(9)
    compiled = jax.jit(lambda k: pair_ratios(k, z, spec))(keys)
    np.testing.assert_allclose(compiled, pair_ratios(keys, z, spec), rtol=1e-6)
    with pytest.raises(ValueError, match="difference must not be zero"):
        jax.jit(lambda k: pair_ratios(k, zero, spec))(keys)
