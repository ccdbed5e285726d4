"""The path expansion against dense Kronecker matrices, and the statements of its sources."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import expansion, frozen
from circuitax.kernel import kron
from circuitax.kernel.chain import materialise
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


@pytest.mark.parametrize(("n_layers", "n_heads"), [(0, 3), (1, 2), (3, 2), (4, 3)])
def test_counts_equal_enumeration(n_layers, n_heads):
    """``C(L, k) H^k`` for each order, ``(1 + H)^L`` in all (S0 section 6)."""
    found = list(expansion.all_paths(n_layers, n_heads))
    layers = [[None, *range(n_heads)]] * n_layers
    expected = {
        tuple((layer, head) for layer, head in enumerate(choice) if head is not None)
        for choice in itertools.product(*layers)
    }
    assert set(found) == expected and len(found) == len(expected)
    assert expansion.n_paths(n_layers, n_heads) == len(found)
    for order in range(n_layers + 2):
        count = sum(len(path) == order for path in found)
        assert expansion.n_paths(n_layers, n_heads, order) == count
        assert count == math.comb(n_layers, order) * n_heads**order


def test_the_framework_papers_two_layer_model():
    """2 layers of 12 heads: 1 + 24 + 144 = 169 paths."""
    assert [expansion.n_paths(2, 12, k) for k in range(3)] == [1, 24, 144]
    assert expansion.n_paths(2, 12) == 169


def test_E42_one_layer_has_no_virtual_heads():
    """S4 speaks of virtual heads "for our 1/2 layer examples": they are paths of two layers."""
    assert expansion.n_paths(1, 12, order=2) == 0
    assert {len(path) for path in expansion.all_paths(1, 12)} == {0, 1}
    assert max(len(path) for path in expansion.all_paths(2, 3)) == 2


def test_index_is_the_place_in_the_enumeration():
    for i, path in enumerate(expansion.all_paths(3, 2)):
        assert expansion.path_index(path, 2) == i


FULL = {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned}


def _expand(run):
    return jax.jit(expansion.expand)(run)


@pytest.mark.parametrize(
    "options",
    [
        FULL,
        {"biases": True, "norm": Norm.rmsnorm, "positions": Positions.rotary, "d_head": 4},
        {"positions": Positions.shortformer, "causal": False},
    ],
    ids=["layernorm", "rmsnorm_rotary", "shortformer"],
)
def test_paths_close_with_norms_biases_positions(options, make_run, x64):
    """Frozen scales, folded gain, offset and centring; three kinds of source sum to the whole."""
    run = make_run(3, **options)
    found = _expand(run)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    model = frozen.frozen_model(run)
    parts = [
        expansion.path_streams(frozen.with_source(model, source))
        for source in ("tokens", "positions", "biases")
    ]
    np.testing.assert_allclose(sum(parts), expansion.path_streams(model), atol=1e-12)


def test_terms_are_dense_kronecker_matrices(make_run, x64):
    """Every path against ``kron(A2 A1, (W_E W_OV1 W_OV2 W_U)^T)`` built with NumPy alone."""
    run = make_run(2)
    model = frozen.frozen_model(run)
    terms = _expand(run).terms
    heads = run.model.blocks.attention
    A = np.asarray(run.trace.patterns)
    OV = np.asarray(heads.W_V) @ np.asarray(heads.W_O)
    one_hot = np.eye(7)[np.asarray(run.tokens)]
    for path in expansion.all_paths(2, 2):
        position, feature = np.eye(5), np.asarray(run.model.W_E)
        for layer, head in path:
            position, feature = A[layer, head] @ position, feature @ OV[layer, head]
        dense = np.kron(position, (feature @ np.asarray(run.model.W_U)).T)
        expected = (dense @ one_hot.ravel()).reshape(5, 7)
        term = expansion.path_term(model, path)
        np.testing.assert_allclose(kron.act(term, model.tokens), expected, atol=1e-12)
        np.testing.assert_allclose(terms[expansion.path_index(path, 2)], expected, atol=1e-12)


def test_path_term_carries_the_norms(make_run, x64):
    run = make_run(2, norm=Norm.layernorm_pre)
    model = frozen.frozen_model(run)
    terms = _expand(run).terms
    path = ((0, 1), (1, 0))
    found = kron.act(expansion.path_term(model, path), model.embedding)
    np.testing.assert_allclose(found, terms[expansion.path_index(path, 2)], atol=1e-12)


def test_S0_prop_22_one_layer_path_expansion(make_run, x64):
    """``T = I ⊗ W_U W_E + Σ_h A^h ⊗ W_U W_OV W_E`` on one-hot tokens gives the logits."""
    run = make_run(1, n_heads=3)
    model = frozen.frozen_model(run)
    one_hot = jax.nn.one_hot(run.tokens, 7, dtype=model.tokens.dtype)
    W_E = run.model.W_E
    bigram = expansion.bigram_path(model, W_E)
    skip = expansion.skip_trigram_paths(model, W_E)
    assert bigram.A is None and len(skip) == 3
    np.testing.assert_allclose(kron.act(kron.add(bigram, *skip), one_hot), run.logits, atol=1e-12)
    direct = np.asarray(W_E @ run.model.W_U)[np.asarray(run.tokens)]
    np.testing.assert_allclose(kron.act(bigram, one_hot), direct, atol=1e-12)


def test_S0_rmk_21_no_layers_is_the_bigram_table(make_run, x64):
    """Zero layers: row t of the logits is row ``x_t`` of ``W_E W_U``, whatever came before."""
    run = make_run(0)
    table = np.asarray(run.model.W_E) @ np.asarray(run.model.W_U)
    np.testing.assert_allclose(run.logits, table[np.asarray(run.tokens)], atol=1e-12)


def test_S0_section_6_virtual_heads_chain_skip_trigrams(make_run, x64):
    """``(A2 ⊗ OV2)(A1 ⊗ OV1)``, composed, is the second-order term of the expansion."""
    run = make_run(2)
    model = frozen.frozen_model(run)
    first, second = expansion.head_term(model, 0, 1), expansion.head_term(model, 1, 0)
    stream = kron.act(second, kron.act(first, model.tokens))
    index = expansion.path_index(((0, 1), (1, 0)), 2)
    np.testing.assert_allclose(expansion.path_streams(model)[index], stream, atol=1e-12)


def test_S0_thm_25_logits_at_a_position_are_a_sum_over_sources(make_run, x64):
    """``Bigram(x_i) + Σ_h Σ_{j<=i} A_ij (W_OV x_j)``, entry by entry."""
    run = make_run(1)
    heads = run.model.blocks.attention
    W_E, W_U, A = (np.asarray(x) for x in (run.model.W_E, run.model.W_U, run.trace.patterns))
    OV = W_E @ (np.asarray(heads.W_V) @ np.asarray(heads.W_O))[0] @ W_U
    text = np.asarray(run.tokens)
    for i in range(5):
        logits = (W_E @ W_U)[text[i]]
        for h in range(2):
            for j in range(i + 1):
                logits = logits + A[0, h, i, j] * OV[h, text[j]]
        np.testing.assert_allclose(run.logits[i], logits, atol=1e-12)


def test_E24_own_position_terms_are_bigrams(make_run, x64):
    """The j = i part of a head reads x_i alone: with the pattern frozen it ignores the past.

    The printed statement, that the direct path *is* the bigram model, fails: the own-position
    part of the heads is not 0.
    """
    run = make_run(1)
    model = frozen.frozen_model(run)
    other = model._replace(tokens=model.tokens.at[:-1].set(1.0))
    for head in range(2):
        term = expansion.path_term(model, ((0, head),))
        own, earlier = expansion.split_own_position(term, 5)
        whole = kron.act(term, model.tokens)
        np.testing.assert_allclose(
            kron.act(own, model.tokens) + kron.act(earlier, model.tokens), whole, atol=1e-12
        )
        at_last = kron.act(own, model.tokens)[-1]
        np.testing.assert_allclose(kron.act(own, other.tokens)[-1], at_last, atol=1e-12)
        assert np.abs(at_last).max() > 1e-2
        assert (
            np.abs(kron.act(earlier, other.tokens)[-1] - kron.act(earlier, model.tokens)[-1]).max()
            > 1e-2
        )
    direct = expansion.split_own_position(expansion.path_term(model, ()), 5)
    np.testing.assert_array_equal(kron.act(direct.earlier, model.tokens), 0)


def test_S4_remark_without_composition_two_layers_are_one(make_run, x64):
    """Second-layer reads orthogonal to first-layer writes: one layer with all the heads."""
    run = make_run(2, d_model=8)
    heads = run.model.blocks.attention
    low, high = jnp.arange(8) < 4, jnp.arange(8) >= 4
    apart = heads._replace(W_O=heads.W_O.at[0].set(heads.W_O[0] * low[None, None, :]))
    for name in ("W_Q", "W_K", "W_V"):
        W = getattr(apart, name)
        apart = apart._replace(**{name: W.at[1].set(W[1] * high[None, :, None])})
    merged = jax.tree.map(lambda W: W.reshape(1, -1, *W.shape[2:]), apart)

    @jax.jit
    def logits(heads):
        model = run.model.replace(blocks=run.model.blocks._replace(attention=heads))
        return forward(model, run.tokens)[0]

    np.testing.assert_allclose(logits(apart), logits(merged), atol=1e-12)
    both = jax.tree.map(lambda W: W.reshape(1, -1, *W.shape[2:]), heads)
    assert np.abs(logits(heads) - logits(both)).max() > 1e-2


def _model(run):
    return frozen.frozen_model(run)


def test_orders_are_sums_of_paths(make_run, x64):
    run = make_run(3, **FULL)
    model = _model(run)
    streams = expansion.path_streams(model)
    orders = np.array([len(path) for path in expansion.all_paths(3, 2)])
    found = jax.jit(expansion.order_streams)(model)
    for order in range(4):
        np.testing.assert_allclose(found[order], streams[orders == order].sum(0), atol=1e-12)


def test_all_orders_are_the_forward_pass_and_order_0_is_the_bigram(make_run, x64):
    run = make_run(4)
    orders = expansion.order_streams(_model(run))
    np.testing.assert_allclose(orders.sum(0), run.trace.streams[-1], atol=1e-12)
    np.testing.assert_array_equal(orders[0], run.model.W_E[run.tokens])


def test_S4_ablation_procedure_E34(make_run, x64):
    """Runs of the one forward pass as the paper orders them give the partial sums of orders.

    Step 0 keeps the patterns; step 1 adds zeros and *saves the head outputs*; step n adds what
    step n - 1 saved. As S4 prints step 1, nothing is saved, and step 2 has only zeros to add.
    """
    run = make_run(3, **FULL)
    orders = expansion.order_streams(_model(run))
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
    orders = expansion.order_streams(_model(run))
    for e in (-0.7, 0.3, 2.0):
        keep = jnp.full(run.trace.head_outputs.shape[:3], e)
        edit = freeze(run.trace)._replace(head_keep=keep)
        _, trace = forward(run.model, run.tokens, edit)
        powers = e ** np.arange(4)
        np.testing.assert_allclose(trace.streams[-1], np.tensordot(powers, orders, 1), atol=1e-12)


def test_layer_subsets_are_sums_of_paths_and_add_up_to_removals(make_run, x64):
    run = make_run(3, **FULL)
    model = _model(run)
    found = jax.jit(expansion.layer_subset_streams)(model)
    streams = expansion.path_streams(model)
    masks = np.array([sum(1 << layer for layer, _ in path) for path in expansion.all_paths(3, 2)])
    for mask in range(8):
        np.testing.assert_allclose(found[mask], streams[masks == mask].sum(0), atol=1e-12)
    for mask in range(8):
        kept = sum(found[part] for part in range(8) if part & mask == part)
        on = jnp.array([mask >> layer & 1 for layer in range(3)], float)
        keep = jnp.broadcast_to(on[:, None, None], run.trace.head_outputs.shape[:3])
        edit = freeze(run.trace)._replace(head_keep=keep)
        _, trace = forward(run.model, run.tokens, edit)
        np.testing.assert_allclose(kept, trace.streams[-1], atol=1e-12)


def test_virtual_heads_are_second_order_paths(make_run, x64):
    run = make_run(3)
    model = frozen.frozen_model(run)
    patterns = expansion.virtual_patterns(model, 0, 2)
    ov = materialise(expansion.virtual_ov(run.model, 0, 2))
    streams = expansion.path_streams(model)
    np.testing.assert_allclose(patterns.sum(-1), 1, atol=1e-12)
    for first in range(2):
        for second in range(2):
            stream = streams[expansion.path_index(((0, first), (2, second)), 2)]
            found = patterns[first, second] @ model.tokens @ ov[first, second]
            np.testing.assert_allclose(found, stream, atol=1e-12)
