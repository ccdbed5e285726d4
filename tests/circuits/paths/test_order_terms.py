"""Order terms against path sums, against the paper's ablation procedure, and as a polynomial."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import expansion, frozen
from circuitax.circuits.paths import orders as order_terms
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

FULL = {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned}


def _model(run):
    return frozen.frozen_model(run)


def test_orders_are_sums_of_paths(make_run, x64):
    run = make_run(3, **FULL)
    model = _model(run)
    streams = expansion.path_streams(model)
    orders = np.array([len(path) for path in expansion.all_paths(3, 2)])
    found = jax.jit(order_terms.order_streams)(model)
    for order in range(4):
        np.testing.assert_allclose(found[order], streams[orders == order].sum(0), atol=1e-12)


def test_all_orders_are_the_forward_pass_and_order_0_is_the_bigram(make_run, x64):
    run = make_run(4)
    orders = order_terms.order_streams(_model(run))
    np.testing.assert_allclose(orders.sum(0), run.trace.streams[-1], atol=1e-12)
    np.testing.assert_array_equal(orders[0], run.model.W_E[run.tokens])


def test_S4_ablation_procedure_E34(make_run, x64):
    """Runs of the one forward pass as the paper orders them give the partial sums of orders.

    Step 0 keeps the patterns; step 1 adds zeros and *saves the head outputs*; step n adds what
    step n - 1 saved. As S4 prints step 1, nothing is saved, and step 2 has only zeros to add.
    """
    run = make_run(3, **FULL)
    orders = order_terms.order_streams(_model(run))
    step = jax.jit(forward, static_argnames="outputs")
    frozen_run = freeze(run.trace)
    added = jnp.zeros_like(run.trace.head_outputs)
    silent = jnp.zeros(added.shape[:3])
    for order in range(5):
        # two runs for a step: what the heads compute, and the stream that gets the saved outputs
        edit = frozen_run._replace(head_keep=silent, head_add=added)
        _, trace = step(run.model, run.tokens, edit, outputs=True)
        partial = orders[: order + 1].sum(0)
        np.testing.assert_allclose(trace.streams[-1], partial, atol=1e-12)
        added = _computed_by_heads(run, trace)
    np.testing.assert_allclose(trace.streams[-1], run.trace.streams[-1], atol=1e-12)
    as_printed = frozen_run._replace(head_keep=silent, head_add=jnp.zeros_like(added))
    _, trace = step(run.model, run.tokens, as_printed)
    assert np.abs(trace.streams[-1] - orders[:2].sum(0)).max() > 1e-2


def _computed_by_heads(run, trace):
    """What each head makes of the stream it saw, in NumPy: the outputs that were not added."""
    heads, norm = run.model.blocks.attention, run.model.blocks.attention_norm
    saved = []
    for layer in range(run.trace.patterns.shape[0]):
        x = np.asarray(trace.streams[layer])
        x = x - x.mean(-1, keepdims=True)
        x = x / np.asarray(run.trace.scales.attention)[layer][:, None]
        x = x * np.asarray(norm.gain[layer]) + np.asarray(norm.offset[layer])
        v = x @ np.asarray(heads.W_V[layer]) + np.asarray(heads.b_V[layer])[:, None]
        saved.append(np.asarray(run.trace.patterns[layer]) @ v @ np.asarray(heads.W_O[layer]))
    return jnp.asarray(np.stack(saved))


def test_the_polynomial_at_any_factor_is_a_forward_pass(make_run, x64):
    """Heads scaled by e in the one forward pass give ``Σ_k e^k c_k``."""
    run = make_run(3, **FULL)
    orders = order_terms.order_streams(_model(run))
    for e in (-0.7, 0.3, 2.0):
        keep = jnp.full(run.trace.head_outputs.shape[:3], e)
        edit = freeze(run.trace)._replace(head_keep=keep)
        _, trace = forward(run.model, run.tokens, edit)
        powers = e ** np.arange(4)
        np.testing.assert_allclose(trace.streams[-1], np.tensordot(powers, orders, 1), atol=1e-12)


def test_layer_subsets_are_sums_of_paths_and_add_up_to_removals(make_run, x64):
    run = make_run(3, **FULL)
    model = _model(run)
    found = jax.jit(order_terms.layer_subset_streams)(model)
    streams = expansion.path_streams(model)
    masks = np.array([sum(1 << layer for layer, _ in path) for path in expansion.all_paths(3, 2)])
    for mask in range(8):
        np.testing.assert_allclose(found[mask], streams[masks == mask].sum(0), atol=1e-12)
    kept = order_terms.over_subsets(found)
    for mask in range(8):
        on = jnp.array([mask >> layer & 1 for layer in range(3)], float)
        keep = jnp.broadcast_to(on[:, None, None], run.trace.head_outputs.shape[:3])
        edit = freeze(run.trace)._replace(head_keep=keep)
        _, trace = forward(run.model, run.tokens, edit)
        np.testing.assert_allclose(kept[mask], trace.streams[-1], atol=1e-12)


def test_orders_under_vmap_and_grad(make_run):
    """A member axis, and d order-2 / d W_O scale = 2 × order-2: homogeneous of degree two."""
    run = make_run(2, dtype=jnp.float32)
    model = _model(run)

    def second_order(scale):
        return order_terms.order_streams(model._replace(W_O=scale * model.W_O))[2]

    one, two = jax.vmap(second_order)(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(two, 4 * one, rtol=1e-4, atol=1e-5)
    _, slope = jax.jvp(second_order, (1.0,), (1.0,))
    np.testing.assert_allclose(slope, 2 * one, rtol=1e-4, atol=1e-5)


def test_bad_arguments_are_named(make_run):
    model = _model(make_run(1, dtype=jnp.float32))
    deep = model._replace(A=jnp.repeat(model.A, 9, axis=0))
    with pytest.raises(ValueError, match="n_layers=9 must be at most 8"):
        order_terms.layer_subset_streams(deep)
    with pytest.raises(ValueError, match="3 subsets on its first axis, must be a power of two"):
        order_terms.over_subsets(jnp.zeros((3, 2)))
