"""Additive models: their sums by hand, their fit, and the language that defeats them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import skip_trigrams


def _logits_by_loop(model, tokens):
    logits = np.asarray(model.bigram)[tokens].copy()
    for i, x in enumerate(tokens):
        for j in range(i):
            if isinstance(model, skip_trigrams.FullTable):
                logits[i] += np.asarray(model.table)[x, tokens[j]]
            else:
                gates = np.asarray(model.gate)[:, x, tokens[j]]
                logits[i] += gates @ np.asarray(model.raises)[:, tokens[j]]
    return logits


def test_logits_are_sums_over_earlier_sources(rng, x64):
    tokens = np.array([2, 0, 2, 3, 1])
    full = skip_trigrams.FullTable(*(jnp.asarray(rng.normal(size=(4,) * n)) for n in (2, 3)))
    gated = skip_trigrams.Additive(
        *(jnp.asarray(rng.normal(size=s)) for s in ((4, 4), (2, 4, 4), (2, 4, 4)))
    )
    logits = jax.jit(skip_trigrams.additive_logits)
    middle = jax.jit(partial(skip_trigrams.additive_logits, at=slice(2, 4)))
    for model in (full, gated):
        expected = _logits_by_loop(model, tokens)
        np.testing.assert_allclose(logits(model, jnp.asarray(tokens)), expected, atol=1e-12)
        found = middle(model, jnp.asarray(tokens))
        np.testing.assert_allclose(found, expected[2:4], atol=1e-12)


def test_loss_is_the_mean_over_the_predictions_asked_for(rng, x64):
    model = skip_trigrams.FullTable(*(jnp.asarray(rng.normal(size=(4,) * n)) for n in (2, 3)))
    texts = rng.integers(0, 4, (3, 5))
    losses = np.empty((3, 4))
    for text, row in zip(texts, losses, strict=True):
        logits = _logits_by_loop(model, text)[:-1]
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

    Both families reach the same convex optimum: logit = β + α [a] + γ [b].
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
    gated = fit(skip_trigrams.init_additive(jax.random.key(0), 6, 1), texts, n_steps=60)
    np.testing.assert_allclose(gated.loss, best, atol=1e-3)


def test_large_vocabularies_get_no_full_table():
    with pytest.raises(ValueError, match="d_vocab=33 must be at most 32"):
        skip_trigrams.init_full(33)
