import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.losses import bigram_log_probs
from circuitax.data.tables import bigram_counts, cross_entropy
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.parameters import model_from_params, params_from_model
from circuitax.models.transformer import Transformer
from circuitax.models.transformer import init as init_model
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import text_losses
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.one_layer.bigram.full_batch import FullBatchBigrams, Joint

SPEC = TransformerSpec.simplified(d_vocab=7, n_layers=0, n_heads=1, d_model=7)
MODULE = Transformer(SPEC)
TOKENS = np.random.default_rng(0).choice(7, 400, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05])
COUNTS = bigram_counts(TOKENS, 7)


def test_loss_on_counts_is_the_loss_on_the_text() -> None:
    model = init_model(jax.random.key(0), SPEC)
    joint = Joint(jnp.asarray(COUNTS / COUNTS.sum(), jnp.float32))
    loss = FullBatchBigrams(MODULE).loss(params_from_model(model), (), joint)
    on_text = text_losses(model, jnp.asarray(TOKENS)[None, :])
    assert float(loss) == pytest.approx(float(on_text.mean()), rel=1e-5)


def test_S0_remark_21_full_width_learns_the_bigram_table() -> None:
    optim = OptimSpec(Optimizer.adam, learning_rate=0.05, weight_decay=0.0, steps=600)
    members = new_members(
        jax.random.key(0), 0.05, Joint(jnp.asarray(COUNTS / COUNTS.sum(), jnp.float32)[None])
    )
    plan = Plan(FullBatchBigrams(MODULE), optim, chunk=600)
    state, _ = advance(plan, members)(init(plan, members))
    log_p = bigram_log_probs(model_from_params(state.params, SPEC)[0])
    with np.errstate(divide="ignore"):
        best = np.log(COUNTS / COUNTS.sum(axis=1, keepdims=True))
    gap = cross_entropy(COUNTS, np.asarray(log_p, float)) - cross_entropy(COUNTS, best)
    assert 0 <= gap < 2e-3


def test_parameters_have_the_precision_of_the_run(x64: None) -> None:
    weights = FullBatchBigrams(MODULE).init(jax.random.key(0), Joint(jnp.zeros((7, 7))))
    assert {leaf.dtype for leaf in jax.tree.leaves(weights)} == {np.dtype("float64")}


def test_layers_are_refused() -> None:
    with pytest.raises(ValueError, match="n_layers=1 must be 0"):
        FullBatchBigrams(Transformer(TransformerSpec(n_layers=1)))
