"""Heads without a softmax: sums over sources by hand, and the start from a trained model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import additive_heads
from circuitax.circuits.additivity import additive_logits
from circuitax.kernel.forward import forward
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init_model

SPEC = TransformerSpec(
    d_vocab=7, n_ctx=5, n_layers=1, n_heads=2, d_model=8, positions=Positions.shortformer
)


@pytest.fixture
def model(x64):
    found = init_model(jax.random.key(3), SPEC, jnp.float32)
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), found)


def _scores(model, tokens):
    heads = model.blocks.attention
    x = np.asarray(model.W_E)[tokens] + np.asarray(model.W_pos)[: len(tokens)]
    q, k = (np.asarray(W[0]) for W in (heads.W_Q, heads.W_K))
    return np.stack([SPEC.scale * (x @ a) @ (x @ b).T for a, b in zip(q, k, strict=True)])


def _logits_by_loop(added, tokens):
    model, heads = added.model, added.model.blocks.attention
    x, W_U = np.asarray(model.W_E)[tokens], np.asarray(model.W_U)
    scores = _scores(model, tokens)
    out = x @ W_U
    for h in range(2):
        writes = x @ np.asarray(heads.W_V[0, h]) @ np.asarray(heads.W_O[0, h]) @ W_U
        for i in range(len(tokens)):
            for j in range(i + 1):
                log_gate = scores[h, i, j] + added.dest[h, tokens[i]] + added.place[h, i, j]
                out[i] += np.exp(log_gate) * writes[j]
    return out


def test_logits_are_sums_over_sources(model, rng):
    tokens = np.array([2, 0, 2, 6, 1])
    dest, place = (jnp.asarray(rng.normal(size=s)) for s in ((2, 7), (2, 5, 5)))
    added = additive_heads.AdditiveHeads(model, dest, place)
    found = jax.jit(additive_heads.additive_heads_logits)(added, tokens)
    np.testing.assert_allclose(found, _logits_by_loop(added, tokens), atol=1e-12)


def test_E11_sources_do_not_couple_without_a_softmax(model, rng):
    """A changed source moves the others' terms in a softmax, and leaves them in a sum."""
    added = additive_heads.AdditiveHeads(model, jnp.zeros((2, 7)), jnp.zeros((2, 5, 5)))

    def last(tokens):
        logits = additive_heads.additive_heads_logits(added, jnp.array(tokens))[-1]
        pattern = forward(model, jnp.array(tokens))[1].patterns[0]
        return np.asarray(logits), np.asarray(pattern)[:, -1]

    (a, A), (b, B), (c, _), (d, _) = (
        last([first, second, 4, 5, 1]) for first in (0, 3) for second in (2, 6)
    )
    np.testing.assert_allclose(a - b, c - d, atol=1e-12)
    assert np.abs(A[:, 2] - B[:, 2]).max() > 1e-6, "the softmax is coupled"


def test_the_start_matches_the_mean_attention(model, rng):
    texts = jnp.asarray(rng.integers(0, 7, (50, 5)))
    start = additive_heads.start_from(model, texts)
    gates = np.stack([np.exp(_scores(model, np.asarray(t))) for t in texts])
    patterns = np.tril(gates) / np.tril(gates).sum(axis=-1, keepdims=True)
    lower = np.tril(np.ones((5, 5))) > 0
    expected = np.log(patterns.mean(axis=0)[:, lower] / gates.mean(axis=0)[:, lower])
    np.testing.assert_allclose(np.asarray(start.place)[:, lower], expected, atol=1e-12)
    mass = (np.tril(gates) * np.exp(np.asarray(start.place))).sum(axis=-1)
    here = np.asarray(texts)[:, None, :].repeat(2, axis=1) == 4
    mean = (mass * here).sum(axis=(0, 2)) / here.sum(axis=(0, 2))
    n = here[:, 0].sum()
    np.testing.assert_allclose(np.exp(-start.dest[:, 4]), (mean * n + 3) / (n + 3), atol=1e-12)


def test_scores_may_be_larger_than_single_precision_exponentiates(model, rng):
    """Scores of 100 and more, as trained models have them: e^88 is the last that float32 holds."""
    texts = jnp.asarray(rng.integers(0, 7, (50, 5)))
    W_Q = model.blocks.attention.W_Q
    highest = np.abs([_scores(model, np.asarray(text)) for text in texts]).max()
    large = model.replace(
        blocks=model.blocks._replace(
            attention=model.blocks.attention._replace(W_Q=W_Q * 150 / highest)
        )
    )
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), large)
    wide, narrow = (additive_heads.start_from(m, texts) for m in (large, single))
    lower = np.tril(np.ones((5, 5))) > 0
    shown = np.asarray(wide.place)[:, lower] > -60  # below, float32 calls a pattern 0
    assert shown.mean() > 0.5
    np.testing.assert_allclose(
        np.asarray(narrow.place)[:, lower][shown],
        np.asarray(wide.place)[:, lower][shown],
        rtol=1e-4,
    )
    found, expected = (additive_heads.additive_heads_logits(m, texts[0]) for m in (narrow, wide))
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01)


def test_tables_start_as_the_same_sum_where_nothing_is_left_out(model, rng):
    """Without positions and the own position, which tables have no place for (E24)."""
    plain = model.replace(W_pos=jnp.zeros_like(model.W_pos))
    texts = jnp.asarray(rng.integers(0, 7, (20, 5)))
    heads = additive_heads.start_from(plain, texts)
    own = jnp.where(jnp.eye(5) > 0, -jnp.inf, 0.0)[None]
    expected = additive_heads.additive_heads_logits(
        heads._replace(place=heads.place + own), texts[0]
    )
    tables = additive_heads.tables_from(plain, texts)
    found = additive_logits(tables._replace(gate=jnp.exp(tables.gate)), texts[0])
    difference = np.asarray(found - expected)  # the tables' raises are centred
    np.testing.assert_allclose(difference - difference[:, :1], 0, atol=1e-12)


def test_tables_start_finite_where_their_gates_alone_would_overflow(model, rng):
    """Gates of e^100 and more beside places as small: float32 holds neither, but their product."""
    texts = jnp.asarray(rng.integers(0, 7, (20, 5)))
    plain = model.replace(W_pos=jnp.zeros_like(model.W_pos))
    heads = plain.blocks.attention
    highest = np.abs([_scores(plain, np.asarray(text)) for text in texts]).max()
    large = plain.replace(
        blocks=plain.blocks._replace(attention=heads._replace(W_Q=heads.W_Q * 300 / highest))
    )
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), large)
    wide, narrow = (additive_heads.tables_from(m, texts) for m in (large, single))
    assert np.asarray(wide.gate).max() > 100, "float64 exponentiates it, and keeps it as it is"
    assert np.asarray(narrow.gate).max() < 88
    found, expected = (
        np.array([additive_logits(t._replace(gate=jnp.exp(t.gate)), text) for text in texts])
        for t in (narrow, wide)
    )
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01)


def test_biases_of_queries_and_keys_are_in_the_scores(model, rng):
    plain = model.replace(W_pos=jnp.zeros_like(model.W_pos))
    b_Q, b_K = (jnp.asarray(rng.normal(size=(1, 2, 4))) for _ in range(2))
    heads = plain.blocks.attention._replace(b_Q=b_Q, b_K=b_K)
    biased = plain.replace(blocks=plain.blocks._replace(attention=heads))
    texts = jnp.asarray(rng.integers(0, 7, (20, 5)))
    gate = additive_heads.tables_from(biased, texts).gate
    scores = additive_heads.pair_scores(biased, jnp.arange(5))
    # What depends on the destination alone is in both, so differences between sources are equal.
    np.testing.assert_allclose(
        gate[:, :5, :5] - gate[:, :5, :1], scores - scores[..., :1], atol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layers": 2}, "one layer and no MLP"),
        ({"norm": "rmsnorm"}, "spec.norm=rmsnorm must be none"),
        ({"positions": Positions.learned}, "spec.positions=learned must be none or shortformer"),
    ],
)
def test_models_that_are_no_sum_are_refused(change, message):
    model = init_model(jax.random.key(0), SPEC.replace(**change))
    with pytest.raises(ValueError, match=message):
        additive_heads.pair_scores(model, jnp.zeros(5, int))
    for start in (additive_heads.start_from, additive_heads.tables_from):
        with pytest.raises(ValueError, match=message):
            start(model, jnp.zeros((2, 5), int))
