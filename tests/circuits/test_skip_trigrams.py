"""Skip-trigrams: sums over sources by loops, the gain of a softmax, and forced triples."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import skip_trigrams
from circuitax.circuits import skip_trigrams as bugs
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


def _additivity_logits_by_loop(model, tokens):
    logits = np.asarray(model.bigram)[tokens].copy()
    for i, x in enumerate(tokens):
        for j in range(i):
            logits[i] += np.asarray(model.table)[x, tokens[j]]
    return logits


def test_logits_are_sums_over_earlier_sources(rng, x64):
    tokens = np.array([2, 0, 2, 3, 1])
    model = skip_trigrams.FullTable(*(jnp.asarray(rng.normal(size=(4,) * n)) for n in (2, 3)))
    logits = jax.jit(skip_trigrams.additive_logits)
    middle = jax.jit(partial(skip_trigrams.additive_logits, at=slice(2, 4)))
    expected = _additivity_logits_by_loop(model, tokens)
    np.testing.assert_allclose(logits(model, jnp.asarray(tokens)), expected, atol=1e-12)
    found = middle(model, jnp.asarray(tokens))
    np.testing.assert_allclose(found, expected[2:4], atol=1e-12)


def test_loss_is_the_mean_over_the_predictions_asked_for(rng, x64):
    model = skip_trigrams.FullTable(*(jnp.asarray(rng.normal(size=(4,) * n)) for n in (2, 3)))
    texts = rng.integers(0, 4, (3, 5))
    losses = np.empty((3, 4))
    for text, row in zip(texts, losses, strict=True):
        logits = _additivity_logits_by_loop(model, text)[:-1]
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        row[:] = -log_p[np.arange(4), text[1:]]
    for at in (slice(None), slice(-1, None), slice(1, 3)):
        found = skip_trigrams.additive_loss(model, jnp.asarray(texts), at)
        np.testing.assert_allclose(found, losses[:, at].mean(), rtol=1e-12)


def _cells(high, n=100):
    """Texts ``(a or filler, b or filler, query, answer)``, cells balanced."""
    texts = []
    for has_a, has_b, p in ((0, 0, 0.5), (1, 0, high), (0, 1, 0.5), (1, 1, 0.5)):
        for i in range(n):
            texts.append([0 if has_a else 5, 1 if has_b else 5, 2, 3 if i < p * n else 4])
    return jnp.array(texts)


def test_E11_the_additive_family_falls_short_of_a_unless_b(x64):
    """The best sum of skip-trigrams loses what the closed form says; the cells' entropy is free.

    It reaches the convex optimum: logit = β + α [a] + γ [b].
    """
    texts, answer = _cells(0.9), slice(-1, None)
    entropy = -np.mean([p * np.log(p) + (1 - p) * np.log(1 - p) for p in (0.5, 0.9, 0.5, 0.5)])
    fit = jax.jit(partial(skip_trigrams.fit, at=answer), static_argnames="n_steps")
    full = fit(skip_trigrams.init_full(6), texts, n_steps=40)
    gap = float(full.loss) - entropy
    # independent: Newton on the three numbers of a logistic regression
    X = np.array([[1, a, b] for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))], float)
    y, theta = np.array([0.5, 0.9, 0.5, 0.5]), np.zeros(3)
    for _ in range(50):
        p = 1 / (1 + np.exp(-X @ theta))
        theta += np.linalg.solve(X.T @ (X * (p * (1 - p))[:, None]), X.T @ (y - p))
    p = 1 / (1 + np.exp(-X @ theta))
    best = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    np.testing.assert_allclose(full.loss, best, atol=1e-4)
    assert full.gradient_norm < 1e-4 and gap > 0.02


def test_keep_in_bay_is_found():
    """keep … in → mind and keep … at → bay force keep … in → bay and keep … at → mind."""
    scores = jnp.array([[2.0, 3.0], [-1.0, 5.0]])  # sources keep, other; destinations in, at
    raises = jnp.array([[1.0, 2.0], [4.0, -1.0]])  # outs mind, bay
    counts = jnp.zeros((2, 2, 2)).at[0, 0, 0].set(9).at[0, 1, 1].set(4).at[1, 1, 0].set(3)
    found = jax.jit(bugs.find_bugs, static_argnums=3)(scores, raises, counts, 3)
    np.testing.assert_array_equal(found.source[:2], [0, 0])
    np.testing.assert_array_equal(found.destination[:2], [0, 1])
    np.testing.assert_array_equal(found.out[:2], [1, 0])
    np.testing.assert_allclose(found.strength, [4, 3, 0])


def test_price_is_the_kl_that_a_free_vector_removes(x64):
    """Two pairs with opposite truths share logits: the price is their divergence, ln 2 at most."""
    n = 400
    p = np.array([0.9, 0.1])
    pair = np.repeat([0, 1], n)
    targets = np.concatenate([np.arange(n) >= p[i] * n for i in range(2)]).astype(int)
    held_out = np.tile([0.0, 1.0], n)
    data = (jnp.asarray(targets), jnp.asarray(pair), jnp.asarray(held_out))
    price = jax.jit(bugs.price_bugs, static_argnums=4, static_argnames=("precision", "n_steps"))
    found = price(jnp.zeros((2 * n, 2)), *data, 2, precision=1e-2, n_steps=30)
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    np.testing.assert_allclose(found.saved, np.log(2) - entropy, atol=2e-3)
    np.testing.assert_allclose(found.saved_by_pair, np.log(2) - entropy, atol=2e-3)
    held_back = price(jnp.zeros((2 * n, 2)), *data, 2, precision=1e4, n_steps=30)
    assert 0 < held_back.saved < found.saved / 4
