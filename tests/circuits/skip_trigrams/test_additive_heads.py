"""Heads without a softmax: sums over sources by hand, and where they start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import skip_trigrams
from circuitax.kernel.forward import forward
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init

SPEC = TransformerSpec(
    d_vocab=7, n_ctx=5, n_layers=1, n_heads=2, d_model=8, positions=Positions.shortformer
)


@pytest.fixture
def model(x64):
    found = init(jax.random.key(3), SPEC, jnp.float32)
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
    added = skip_trigrams.AdditiveHeads(model, dest, place)
    found = jax.jit(skip_trigrams.additive_heads_logits)(added, tokens)
    np.testing.assert_allclose(found, _logits_by_loop(added, tokens), atol=1e-12)


def test_E11_sources_do_not_couple_without_a_softmax(model, rng):
    """A changed source moves the others' terms in a softmax, and leaves them in a sum."""
    added = skip_trigrams.AdditiveHeads(model, jnp.zeros((2, 7)), jnp.zeros((2, 5, 5)))

    def last(tokens):
        logits = skip_trigrams.additive_heads_logits(added, jnp.array(tokens))[-1]
        pattern = forward(model, jnp.array(tokens))[1].patterns[0]
        return np.asarray(logits), np.asarray(pattern)[:, -1]

    (a, A), (b, B), (c, _), (d, _) = (
        last([first, second, 4, 5, 1]) for first in (0, 3) for second in (2, 6)
    )
    np.testing.assert_allclose(a - b, c - d, atol=1e-12)
    assert np.abs(A[:, 2] - B[:, 2]).max() > 1e-6, "the softmax is coupled"


def test_the_count_of_sources_is_the_denominator_where_scores_are_0(model, rng):
    heads = model.blocks.attention
    even = model.replace(blocks=model.blocks._replace(attention=heads._replace(W_Q=0 * heads.W_Q)))
    tokens = jnp.asarray(rng.integers(0, 7, 5))
    found = jax.jit(skip_trigrams.additive_heads_logits)(skip_trigrams.counted(even), tokens)
    np.testing.assert_allclose(found, forward(even, tokens)[0], atol=1e-12)
    apart = skip_trigrams.additive_heads_logits(skip_trigrams.counted(model), tokens)
    assert np.abs(np.asarray(apart - forward(model, tokens)[0])).max() > 1e-6


def test_with_its_denominators_a_sum_is_the_transformer_again(model, rng):
    tokens = jnp.asarray(rng.integers(0, 7, 5))
    counted = skip_trigrams.counted(model)
    found = jax.jit(skip_trigrams.normalised_heads_logits)(
        counted._replace(dest=jnp.asarray(rng.normal(size=(2, 7)))), tokens
    )
    np.testing.assert_allclose(found, forward(model, tokens)[0], atol=1e-12)
    place = rng.normal(size=(2, 5, 5))
    moved = skip_trigrams.normalised_heads_logits(
        counted._replace(place=jnp.asarray(place)), tokens
    )
    gates = np.tril(np.exp(_scores(model, np.asarray(tokens)) + place))
    gates = gates / gates.sum(axis=-1, keepdims=True)
    x, W_U = np.asarray(model.W_E)[np.asarray(tokens)], np.asarray(model.W_U)
    heads = model.blocks.attention
    writes = [x @ np.asarray(heads.W_V[0, h]) @ np.asarray(heads.W_O[0, h]) for h in range(2)]
    expected = (x + sum(gates[h] @ writes[h] for h in range(2))) @ W_U
    np.testing.assert_allclose(moved, expected, atol=1e-12)


def test_gates_that_single_precision_does_not_hold_behind_the_mask(model):
    """Scores of 150: exponentials overflow at sources that are not seen, whose place is 0."""
    heads = model.blocks.attention
    tokens = np.array([3, 1, 4, 1, 5])
    scores = _scores(model, tokens)
    seen = np.tril(np.ones((5, 5))) > 0
    large = model.replace(
        blocks=model.blocks._replace(
            attention=heads._replace(W_Q=heads.W_Q * 150 / scores[:, ~seen].max())
        )
    )
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), large)
    lower = -np.where(seen, 150 * scores / scores[:, ~seen].max(), 0)
    added = skip_trigrams.AdditiveHeads(
        single, jnp.zeros((2, 7), jnp.float32), jnp.asarray(lower, jnp.float32)
    )

    def loss(heads):
        return skip_trigrams.additive_heads_logits(heads, jnp.asarray(tokens)).std()

    value, slope = jax.value_and_grad(loss)(added)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_biases_of_queries_and_keys_are_in_the_scores(model, rng):
    plain = model.replace(W_pos=jnp.zeros_like(model.W_pos))
    b_Q, b_K = (jnp.asarray(rng.normal(size=(1, 2, 4))) for _ in range(2))
    heads = plain.blocks.attention._replace(b_Q=b_Q, b_K=b_K)
    biased = plain.replace(blocks=plain.blocks._replace(attention=heads))
    found = skip_trigrams.pair_scores(biased, jnp.arange(5))
    x = np.asarray(plain.W_E)[:5]
    for h in range(2):
        q = x @ np.asarray(heads.W_Q[0, h]) + np.asarray(b_Q[0, h])
        k = x @ np.asarray(heads.W_K[0, h]) + np.asarray(b_K[0, h])
        np.testing.assert_allclose(found[h], SPEC.scale * q @ k.T, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layers": 2}, "one layer and no MLP"),
        ({"norm": "rmsnorm"}, "spec.norm=rmsnorm must be none"),
        ({"positions": Positions.learned}, "spec.positions=learned must be none or shortformer"),
    ],
)
def test_models_that_are_no_sum_are_refused(change, message):
    model = init(jax.random.key(0), SPEC.replace(**change))
    with pytest.raises(ValueError, match=message):
        skip_trigrams.pair_scores(model, jnp.zeros(5, int))
    with pytest.raises(ValueError, match=message):
        skip_trigrams.counted(model)


def test_factors_of_positions_need_a_length():
    model = init(jax.random.key(0), SPEC.replace(positions=Positions.none, n_ctx=None))
    with pytest.raises(ValueError, match=r"spec\.n_ctx=None must be set"):
        skip_trigrams.counted(model)
