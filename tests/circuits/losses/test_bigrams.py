"""The bigram table that a model without layers is, and the direct path of every other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.losses import bigram_log_probs, direct_path_log_probs
from circuitax.kernel.forward import forward
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init

SPEC = TransformerSpec.simplified(d_vocab=7, n_layers=0, n_heads=1, d_model=7)


def test_S0_remark_21_prediction_depends_on_the_current_token_alone() -> None:
    model = init(jax.random.key(1), SPEC)
    table = bigram_log_probs(model)
    np.testing.assert_allclose(table, direct_path_log_probs(model), rtol=1e-5)
    for text in ([3, 1, 4], [5, 5, 4]):
        logits, _ = forward(model, text)
        np.testing.assert_allclose(jax.nn.log_softmax(logits[-1]), table[4], rtol=1e-5)


def test_direct_path_adds_the_bias() -> None:
    model = init(jax.random.key(1), SPEC).replace(b_U=jnp.arange(7.0))
    by_hand = np.asarray(model.W_E @ model.W_U, float) + np.arange(7.0)
    by_hand -= np.log(np.exp(by_hand).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(direct_path_log_probs(model), by_hand, rtol=1e-5, atol=1e-6)


def test_layers_read_more_than_one_token() -> None:
    with pytest.raises(ValueError, match="n_layers=1, must have 0"):
        bigram_log_probs(init(jax.random.key(0), SPEC.replace(n_layers=1)))
