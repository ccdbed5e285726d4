"""The path sum closes to the logits, term by term equal to dense Kronecker matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.paths import expansion, frozen
from circuitax.kernel import kron
from circuitax.kernel.forward import forward
from circuitax.kernel.interventions import ablate_heads, freeze
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as run_model

FULL = {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned}


def _expand(run):
    return jax.jit(expansion.expand)(run)


@pytest.mark.parametrize("n_layers", range(5))
def test_paths_close_to_the_logits(n_layers, make_run, x64):
    run = make_run(n_layers)
    found = _expand(run)
    assert found.terms.shape[0] == 3**n_layers
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    np.testing.assert_allclose(found.terms.sum(0), run.logits, atol=1e-12)


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


def test_paths_close_in_float32(make_run):
    run = make_run(3, dtype=jnp.float32, **FULL)
    found = _expand(run)
    assert found.terms.dtype == jnp.float32
    np.testing.assert_allclose(found.remainder, 0, atol=1e-5 * float(jnp.abs(run.logits).max()))


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


def test_ablating_a_head_under_frozen_patterns_removes_its_paths(make_run, x64):
    """Section 1.6: pattern-preserving ablation = logits minus all terms containing the head."""
    run = make_run(3, **FULL)
    terms = _expand(run).terms
    step = jax.jit(forward)
    for layer, head in [(0, 1), (1, 0), (2, 1)]:
        off = jnp.zeros((3, 2)).at[layer, head].set(1)
        edit = freeze(run.trace)._replace(head_keep=ablate_heads(off).head_keep)
        logits, _ = step(run.model, run.tokens, edit)
        containing = jnp.array([(layer, head) in path for path in expansion.all_paths(3, 2)])
        np.testing.assert_allclose(logits, run.logits - terms[containing].sum(0), atol=1e-12)


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


def test_expansion_under_vmap_and_grad(make_run):
    """Over two texts at once, and the gradient of one path's logit by W_O against differences."""
    run = make_run(2, dtype=jnp.float32)

    def term(model, tokens):
        linear = frozen.frozen_model(run_model(model, tokens))
        return expansion.path_streams(linear)[4] @ model.W_U

    texts = jnp.stack([run.tokens, run.tokens[::-1]])
    both = jax.jit(jax.vmap(term, in_axes=(None, 0)))(run.model, texts)
    np.testing.assert_allclose(both[0], _expand(run).terms[4], atol=1e-5)

    @jax.jit
    def value(scale):
        heads = run.model.blocks.attention
        blocks = run.model.blocks._replace(attention=heads._replace(W_O=scale * heads.W_O))
        return term(run.model.replace(blocks=blocks), run.tokens)[3, 2]

    slope = jax.grad(value)(1.0)
    step = 1e-2
    np.testing.assert_allclose(slope, (value(1 + step) - value(1 - step)) / (2 * step), rtol=2e-2)


def test_bad_arguments_are_named(make_run):
    run = make_run(2, dtype=jnp.float32)
    model = frozen.frozen_model(run)
    with pytest.raises(ValueError, match="9 paths, more than max_paths=8"):
        expansion.path_streams(model, max_paths=8)
    with pytest.raises(ValueError, match="source='token' must be"):
        frozen.with_source(model, "token")
    deep = make_run(1, mlp=True, dtype=jnp.float32)
    with pytest.raises(ValueError, match=r"run\.trace\.mlp_outputs is None"):
        frozen.frozen_model(run_model(deep.model, deep.tokens))
    both = run_model(run.model, jnp.stack([run.tokens, run.tokens]))
    with pytest.raises(ValueError, match="run has 2 texts, must have one"):
        expansion.expand(both)
    with pytest.raises(ValueError, match="layer=9 must be from 0 to 1"):
        expansion.head_term(model, 9, 0)
    with pytest.raises(ValueError, match="layer=2 must be from 0 to 1"):
        frozen.head_writes(model, 2, model.embedding)
    with pytest.raises(ValueError, match="layer=-1 must be from 0 to 1"):
        frozen.head_constants(model, -1)
    with pytest.raises(ValueError, match="head=-1 must be from 0 to 1"):
        expansion.head_term(model, 0, -1)


def test_numpy_and_lists_expand_as_arrays_of_jax_do(make_run, x64):
    """Weights with biases, and tokens, of NumPy; tokens as a list."""
    run = make_run(2, **FULL)
    plain = jax.tree.map(np.asarray, run.model)
    expected = _expand(run).terms
    for tokens in (np.asarray(run.tokens), run.tokens.tolist()):
        np.testing.assert_allclose(
            expansion.expand(run_model(plain, tokens)).terms, expected, atol=1e-12
        )
    by_hand = Run(plain, np.asarray(run.tokens), run.logits, run.trace)
    np.testing.assert_allclose(expansion.expand(by_hand).terms, expected, atol=1e-12)
    texts = np.stack([run.tokens, run.tokens[::-1]])
    both = jax.vmap(lambda text: expansion.expand(run_model(plain, text)).terms)(texts)
    np.testing.assert_allclose(both[0], expected, atol=1e-12)
