import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.induction_scores import induction_scores
from circuitax.data.repeated import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights

MODEL = TransformerSpec(d_vocab=12, n_ctx=14, n_layers=2, n_heads=2, d_model=8)
TEXTS = RepeatedSource(6, 14, 12, min_period=3, max_period=6, distinct=True)(jax.random.key(1))


def test_against_sums_over_every_pair_of_positions() -> None:
    weights = init_weights(jax.random.key(0), MODEL)
    spec = MODEL.forward_spec()
    scores = induction_scores(weights, TEXTS, spec)
    prefix, previous, n_prefix, uniform = np.zeros((2, 2)), np.zeros((2, 2)), 0, 0.0
    losses = np.zeros(13)
    for text in np.asarray(TEXTS):
        logits, trace = forward(weights, jnp.asarray(text), spec)
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
    model = TransformerSpec(d_vocab=12, n_ctx=14, n_layers=0, n_heads=2, d_model=8)
    scores = induction_scores(init_weights(jax.random.key(0), model), TEXTS, model.forward_spec())
    assert scores.prefix.shape == (0, 2)
    assert np.isfinite(scores.loss_by_position).all()
