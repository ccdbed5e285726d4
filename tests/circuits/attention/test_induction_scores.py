import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.detectors import induction_scores
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init

SPEC = TransformerSpec(d_vocab=12, n_ctx=14, n_layers=2, n_heads=2, d_model=8)
TEXTS = RepeatedSource(6, 14, 12, min_period=3, max_period=6, distinct=True)(jax.random.key(1))


def test_against_sums_over_every_pair_of_positions() -> None:
    model = init(jax.random.key(0), SPEC)
    scores = induction_scores(model, TEXTS)
    prefix, previous, n_prefix, uniform = np.zeros((2, 2)), np.zeros((2, 2)), 0, 0.0
    losses = np.zeros(13)
    for text in np.asarray(TEXTS):
        logits, trace = forward(model, jnp.asarray(text))
        A = np.asarray(trace.patterns, float)
        for t in range(14):
            marked = [s for s in range(1, t + 1) if text[s - 1] == text[t] and s - 1 < t]
            if marked:
                prefix += A[:, :, t, marked].sum(-1)
                uniform += len(marked) / (t + 1)
                n_prefix += 1
            if t:
                previous += A[:, :, t, t - 1] / 13 / 6
        log_p = np.asarray(jax.nn.log_softmax(logits), float)
        losses -= log_p[np.arange(13), text[1:]] / 6
    np.testing.assert_allclose(scores.prefix, prefix / n_prefix, rtol=1e-5)
    np.testing.assert_allclose(scores.previous, previous, rtol=1e-5)
    np.testing.assert_allclose(scores.chance, uniform / n_prefix, rtol=1e-5)
    np.testing.assert_allclose(scores.loss_by_position, losses, rtol=1e-5)


def test_without_layers_there_are_no_heads() -> None:
    spec = TransformerSpec(d_vocab=12, n_ctx=14, n_layers=0, n_heads=2, d_model=8)
    model = init(jax.random.key(0), spec)
    scores = induction_scores(model, TEXTS)
    assert scores.prefix.shape == (0, 2)
    # What is left is a table of pairs of tokens; spec.positions adds none to the stream.
    logits = np.asarray(model.W_E @ model.W_U, float)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = -log_p[TEXTS[:, :-1], TEXTS[:, 1:]].mean(axis=0)
    np.testing.assert_allclose(scores.loss_by_position, expected, rtol=1e-5)


def test_one_text_and_an_ensemble_are_refused() -> None:
    model = init(jax.random.key(0), SPEC)
    with pytest.raises(ValueError, match=r"texts has shape \(14,\), must be \[batch, n_ctx\]"):
        induction_scores(model, TEXTS[0])
    members = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), model)
    with pytest.raises(ValueError, match="leading axis of members"):
        induction_scores(members, TEXTS)
    lists = induction_scores(model, np.asarray(TEXTS).tolist())
    np.testing.assert_array_equal(lists.prefix, induction_scores(model, TEXTS).prefix)
