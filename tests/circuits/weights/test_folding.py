"""Folded norms change nothing, and a constant divisor has a price."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights.folding import fold_norms, fold_read, norm_price
from circuitax.kernel.forward import forward
from circuitax.kernel.norm import Norm, apply_norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.weights import MLPWeights, NormWeights


@pytest.mark.parametrize("norm", [Norm.layernorm, Norm.rmsnorm, Norm.none])
def test_a_folded_read_is_the_read_of_the_norm(norm, rng, x64):
    x, W, b = (jnp.asarray(rng.normal(size=s)) for s in ((4, 6), (6, 3), (3,)))
    weights = NormWeights(jnp.asarray(rng.normal(size=6)), jnp.asarray(rng.normal(size=6)))
    y, scale = apply_norm(x, norm, 1e-5, weights)
    folded, bias = fold_read(W, b, norm, weights)
    np.testing.assert_allclose(
        x @ folded / scale[:, None] + bias[None, :], y @ W + b[None, :], atol=1e-12
    )


@pytest.mark.parametrize("mlp", [{}, {"mlp": True}, {"mlp": True, "n_extra": 1}])
def test_S0_section_2_3_norms_are_absorbed_up_to_one_scale(mlp, make_run, x64):
    run = make_run(2, biases=True, norm=Norm.layernorm, positions=Positions.learned, **mlp)
    folded = fold_norms(run.model)
    assert folded.spec.norm == Norm.rmsnorm and folded.blocks.attention_norm is None
    logits, trace = jax.jit(forward)(folded, run.tokens)
    np.testing.assert_allclose(logits, run.logits, atol=1e-12)
    np.testing.assert_allclose(trace.patterns, run.trace.patterns, atol=1e-12)
    np.testing.assert_allclose(trace.scales.attention, run.trace.scales.attention, atol=1e-12)
    # and the gain does matter: dropping it instead of folding it is no identity
    dropped = run.model.replace(blocks=run.model.blocks._replace(attention_norm=None))
    assert np.abs(forward(dropped, run.tokens)[0] - run.logits).max() > 1e-2


@pytest.mark.parametrize("final_norm", [True, False])
@pytest.mark.parametrize("positions", Positions)
def test_every_position_scheme_keeps_its_logits(positions, final_norm, make_run, x64):
    # a gain before positions cannot be folded, so those schemes have the bare norm
    bare = positions.in_queries_and_keys
    norm = Norm.layernorm_pre if bare else Norm.layernorm
    run = make_run(2, biases=True, norm=norm, positions=positions, d_head=4, mlp=True)
    kept = run.model.final_norm if final_norm else None
    spec = run.model.spec.replace(final_norm=final_norm)
    model = run.model.replace(spec=spec, final_norm=kept)
    logits, trace = forward(model, run.tokens)
    folded = fold_norms(model)
    assert folded.blocks.attention_norm is None and folded.final_norm is None
    found, folded_trace = forward(folded, run.tokens)
    np.testing.assert_allclose(found, logits, atol=1e-12)
    np.testing.assert_allclose(folded_trace.patterns, trace.patterns, atol=1e-12)


def test_without_a_final_norm_the_writers_keep_their_mean(make_run, x64):
    run = make_run(1, norm=Norm.layernorm)
    spec = run.model.spec.replace(final_norm=False)
    model = run.model.replace(spec=spec, final_norm=None)
    folded = fold_norms(model)
    assert folded.spec.norm == Norm.layernorm_pre
    before, _ = forward(model, run.tokens)
    np.testing.assert_allclose(forward(folded, run.tokens)[0], before, atol=1e-12)


def test_a_gate_gets_a_bias_from_the_offset(make_run, x64):
    run = make_run(1, norm=Norm.layernorm, mlp=True)
    mlp = run.model.blocks.mlp
    gated = MLPWeights(mlp.W_in, mlp.W_out, W_gate=mlp.W_in[..., ::-1])
    model = run.model.replace(
        blocks=run.model.blocks._replace(mlp=gated), spec=run.model.spec.replace(gated=True)
    )
    folded = fold_norms(model)
    assert folded.blocks.mlp.b_gate is not None
    before, _ = forward(model, run.tokens)
    np.testing.assert_allclose(forward(folded, run.tokens)[0], before, atol=1e-12)
    ensemble = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), run.model)
    with pytest.raises(ValueError, match="leading axis of members"):
        fold_norms(ensemble)


def test_S0_section_2_3_a_norm_is_only_approximately_absorbed(make_run, x64):
    """By hand for zero layers: logits over the mean σ instead of over each token's own."""
    run = make_run(0, norm=Norm.rmsnorm, d_vocab=5)
    texts = jnp.array([[0, 1, 2, 3, 4], [4, 4, 1, 0, 2]])
    found = jax.jit(norm_price)(run.model, texts)
    x = np.asarray(run.model.W_E)[np.asarray(texts)]
    sigma = np.sqrt((x**2).mean(-1, keepdims=True) + run.model.spec.norm_eps)

    def loss(scale):
        logits = x / scale @ np.asarray(run.model.W_U)
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        picked = np.take_along_axis(log_p[:, :-1], np.asarray(texts)[:, 1:, None], -1)
        return -picked.mean()

    np.testing.assert_allclose(found.loss, loss(sigma), atol=1e-12)
    np.testing.assert_allclose(found.constant, loss(sigma.mean()), atol=1e-12)
    np.testing.assert_allclose(found.price, found.constant - found.loss)
    assert abs(found.price) > 1e-3


def test_without_norm_there_is_nothing_to_pay(make_run, x64):
    run = make_run(2)
    found = norm_price(run.model, run.tokens[None])
    np.testing.assert_allclose(found.price, 0, atol=1e-12)
