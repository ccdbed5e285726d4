"""One layer: sums over sources, bigrams, bilinear MLPs.

Against loops, SciPy and NumPy in double precision.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

from circuitax.circuits.losses import bigram_log_probs
from circuitax.circuits.skip_trigrams import additive_heads_logits, counted
from circuitax.data.tables import bigram_counts, cross_entropy
from circuitax.kernel.forward import behind_start
from circuitax.kernel.keys import derive, member_keys
from circuitax.kernel.mlp import Activation
from circuitax.kernel.positions import Positions
from circuitax.kernel.spec import TransformerSpec
from circuitax.lab.lab import Lab
from circuitax.models.parameters import model_from_params, params_from_model
from circuitax.models.transformer import Transformer
from circuitax.models.transformer import init as init_model
from circuitax.training.ensemble import Plan, advance, init, new_members
from circuitax.training.language import module_losses, text_losses
from circuitax.training.optim import Optimizer, OptimSpec
from experiments.one_layer.bigram.experiment import FullBatchBigrams
from experiments.one_layer.bilinear.spectra import kept_losses
from experiments.one_layer.one_layer_circuits.additivity import AdditiveTask, OneLayer, text_gap

# --- Softmax heads and sums over sources on text.

ADDITIVE = TransformerSpec(
    d_vocab=12,
    n_ctx=9,
    n_layers=1,
    n_heads=2,
    d_model=8,
    positions=Positions.shortformer,
    start_token=11,
)
KEY = jax.random.key(5)


def windows_of(tokens):
    texts = np.stack([tokens[k : k + 9] for k in range(0, tokens.size - 9, 9)])
    return behind_start(jnp.asarray(texts), 11)


def summed_loss(model, texts):
    """Mean loss of the next token of sums over sources, by SciPy."""
    heads = counted(model)
    logits = np.array([additive_heads_logits(heads, text) for text in jnp.asarray(texts)])
    right = np.take_along_axis(logits[:, :-1], texts[:, 1:, None], axis=-1)[..., 0]
    return float((logsumexp(logits[:, :-1], axis=-1) - right).mean())


def test_both_families_begin_as_one_model_and_learn(tmp_path):
    task = AdditiveTask(optim=OptimSpec(learning_rate=0.05, steps=40), batch=8, seeds=2, chunk=20)
    draws = np.random.default_rng(2)
    # Each token is mostly followed by the next one, so that there is something to learn.
    tokens = np.cumsum(draws.choice([1, 4], 3000, p=[0.9, 0.1])) % 11
    texts = windows_of(tokens[:450])
    found = text_gap(task, ADDITIVE, tokens, texts, KEY, Lab(tmp_path))
    for i, key in enumerate(member_keys(derive(KEY, "init"), 2)):
        model = init_model(key, ADDITIVE)
        starts = {"softmax": float(text_losses(model, texts).mean())}
        starts["sum"] = summed_loss(model, np.asarray(texts))
        for family, start in starts.items():
            module = OneLayer(family, ADDITIVE)
            params = module.init(key)["params"]
            own = float(jnp.mean(module_losses(module, params, texts)))
            assert own == pytest.approx(start, rel=1e-5)
            # Most of log 11 = 2.4 nats can be learned.
            assert 0.2 < found[f"{family}_end"][i] < start - 1
    assert (found["softmax_end"] != found["sum_end"]).all()


# --- Bigrams: training on counts is training on the text.

ZERO = TransformerSpec.simplified(d_vocab=7, n_layers=0, n_heads=1, d_model=7)
TOKENS = np.random.default_rng(0).choice(7, 400, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05])
COUNTS = bigram_counts(TOKENS, 7)


def test_loss_on_counts_is_the_loss_on_the_text():
    model = init_model(jax.random.key(0), ZERO)
    joint = jnp.asarray(COUNTS / COUNTS.sum(), jnp.float32)
    loss = FullBatchBigrams(Transformer(ZERO)).loss(params_from_model(model), (), joint)
    on_text = text_losses(model, jnp.asarray(TOKENS)[None, :])
    assert float(loss) == pytest.approx(float(on_text.mean()), rel=1e-5)


def test_S0_remark_21_full_width_learns_the_bigram_table():
    optim = OptimSpec(Optimizer.adam, learning_rate=0.05, weight_decay=0.0, steps=600)
    joint = jnp.asarray(COUNTS / COUNTS.sum(), jnp.float32)[None]
    members = new_members(jax.random.key(0), 0.05, joint)
    plan = Plan(FullBatchBigrams(Transformer(ZERO)), optim, chunk=600)
    state, _ = advance(plan, members)(init(plan, members))
    log_p = bigram_log_probs(model_from_params(state.params, ZERO)[0])
    with np.errstate(divide="ignore"):
        best = np.log(COUNTS / COUNTS.sum(axis=1, keepdims=True))
    gap = cross_entropy(COUNTS, np.asarray(log_p, float)) - cross_entropy(COUNTS, best)
    assert 0 <= gap < 2e-3


# --- Bilinear MLPs: what eigenvectors keep.

BILINEAR = TransformerSpec(
    9, 8, 1, 2, 6, d_mlp=4, gated=True, activation=Activation.linear, init_scale=1.5, init_embed=2.0
)


@pytest.fixture
def given(x64, rng):
    model = init_model(jax.random.key(1), BILINEAR)
    return model, jnp.asarray(rng.integers(0, 9, size=(3, 8)))


def test_all_eigenvectors_keep_the_loss_and_none_is_a_model_without_mlp(given):
    model, windows = given
    found = kept_losses(model, windows, jax.random.split(jax.random.key(0), 3), (1, 4, 6))
    whole = text_losses(model, windows).mean()
    bare = model.replace(blocks=model.blocks._replace(mlp=None))
    np.testing.assert_allclose(found.whole, whole, rtol=1e-12)
    np.testing.assert_allclose(found.kept[-1], whole, rtol=1e-10)
    np.testing.assert_allclose(found.removed, text_losses(bare, windows).mean(), rtol=1e-10)
    # Four random eigenvectors of six are not the four largest, and differ from draw to draw.
    assert np.ptp(found.random) > 1e-3 and np.abs(found.random - found.kept[1]).min() > 1e-4
