"""Sums of paths by order and layer, and virtual heads, against single paths."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.paths import expansion, frozen, orders
from circuitax.circuits.paths import orders as order_terms
from circuitax.kernel.chain import materialise
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
