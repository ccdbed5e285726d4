"""Virtual heads are the second-order terms of the expansion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import expansion, frozen, orders
from circuitax.kernel.chain import materialise


def test_virtual_heads_are_second_order_paths(make_run, x64):
    run = make_run(3)
    model = frozen.frozen_model(run)
    patterns = orders.virtual_patterns(model, 0, 2)
    ov = materialise(orders.virtual_ov(run.model, 0, 2))
    sizes = jax.jit(orders.virtual_sizes, static_argnums=(1, 2))(model, 0, 2)
    streams = expansion.path_streams(model)
    np.testing.assert_allclose(patterns.sum(-1), 1, atol=1e-12)
    for first in range(2):
        for second in range(2):
            stream = streams[expansion.path_index(((0, first), (2, second)), 2)]
            found = patterns[first, second] @ model.tokens @ ov[first, second]
            np.testing.assert_allclose(found, stream, atol=1e-12)
            expected = np.linalg.norm(np.asarray(stream @ run.model.W_U), axis=-1)
            np.testing.assert_allclose(sizes[first, second], expected, atol=1e-12)


def test_layers_must_rise(make_run):
    run = make_run(2, dtype=jnp.float32)
    with pytest.raises(ValueError, match="first=1 must be a layer before second=1"):
        orders.virtual_ov(run.model, 1, 1)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [(-1, 0, "first=-1 must be from 0 to 1"), (0, 9, "second=9 must be from 0 to 1")],
)
def test_layers_that_the_model_lacks_are_named(first, second, message, make_run):
    run = make_run(2, dtype=jnp.float32)
    model = frozen.frozen_model(run)
    for read in (orders.virtual_patterns, orders.virtual_sizes):
        with pytest.raises(ValueError, match=message):
            read(model, first, second)
    with pytest.raises(ValueError, match=message):
        orders.virtual_ov(run.model, first, second)
