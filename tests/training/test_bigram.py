import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.bigrams import bigram_counts, cross_entropy
from circuitax.kernel.forward import forward
from circuitax.kernel.positions import Positions
from circuitax.models.specs import TransformerSpec
from circuitax.models.transformer import init_weights
from circuitax.training.bigram import (
    FullBatchBigrams,
    Joint,
    bigram_log_probs,
    direct_path_log_probs,
)
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import text_losses
from circuitax.training.optim import Optimizer, OptimSpec

MODEL = TransformerSpec(
    d_vocab=7, n_ctx=None, n_layers=0, n_heads=1, d_model=7, positions=Positions.none
)
TOKENS = np.random.default_rng(0).choice(7, 400, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05])
COUNTS = bigram_counts(TOKENS, 7)


def test_loss_on_counts_is_the_loss_on_the_text() -> None:
    weights = init_weights(jax.random.key(0), MODEL)
    joint = Joint(jnp.asarray(COUNTS / COUNTS.sum(), jnp.float32))
    loss = FullBatchBigrams(MODEL).loss(weights, (), joint)
    on_text = text_losses(MODEL, weights, jnp.asarray(TOKENS)[None, :])
    assert float(loss) == pytest.approx(float(on_text.mean()), rel=1e-5)


def test_S0_remark_21_prediction_depends_on_the_current_token_alone() -> None:
    weights = init_weights(jax.random.key(1), MODEL)
    table = bigram_log_probs(weights, MODEL)
    np.testing.assert_allclose(table, direct_path_log_probs(weights), rtol=1e-5)
    for text in ([3, 1, 4], [5, 5, 4]):
        logits, _ = forward(weights, jnp.array(text), MODEL.forward_spec())
        np.testing.assert_allclose(jax.nn.log_softmax(logits[-1]), table[4], rtol=1e-5)


def test_S0_remark_21_full_width_learns_the_bigram_table() -> None:
    optim = OptimSpec(Optimizer.adam, learning_rate=0.05, weight_decay=0.0, steps=600)
    members = new_members(
        jax.random.key(0), 0.05, Joint(jnp.asarray(COUNTS / COUNTS.sum(), jnp.float32)[None])
    )
    plan = Plan(FullBatchBigrams(MODEL), optim, chunk=600)
    state, _ = advance(plan, members)(init(plan, members))
    log_p = bigram_log_probs(jax.tree.map(lambda leaf: leaf[0], state.params), MODEL)
    with np.errstate(divide="ignore"):
        best = np.log(COUNTS / COUNTS.sum(axis=1, keepdims=True))
    gap = cross_entropy(COUNTS, np.asarray(log_p, float)) - cross_entropy(COUNTS, best)
    assert 0 <= gap < 2e-3


def test_parameters_have_the_precision_of_the_run(x64: None) -> None:
    weights = FullBatchBigrams(MODEL).init(jax.random.key(0), Joint(jnp.zeros((7, 7))))
    assert {leaf.dtype for leaf in jax.tree.leaves(weights)} == {np.dtype("float64")}


def test_direct_path_adds_the_bias() -> None:
    weights = init_weights(jax.random.key(1), MODEL)._replace(b_U=jnp.arange(7.0))
    by_hand = np.asarray(weights.W_E @ weights.W_U, float) + np.arange(7.0)
    by_hand -= np.log(np.exp(by_hand).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(direct_path_log_probs(weights), by_hand, rtol=1e-5, atol=1e-6)


def test_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="n_layers=1 must be 0"):
        FullBatchBigrams(TransformerSpec(n_layers=1))
