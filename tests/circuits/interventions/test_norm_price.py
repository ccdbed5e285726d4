"""The price of a constant norm scale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights.folding import norm_price
from circuitax.kernel.norm import Norm


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


def test_one_text_and_ensembles_are_refused(make_run):
    run = make_run(1, dtype=jnp.float32)
    with pytest.raises(ValueError, match=r"texts has shape \(5,\), must be a batch of texts"):
        norm_price(run.model, run.tokens)
    members = jax.tree.map(lambda x: jnp.stack([x, x, x]), run.model)
    with pytest.raises(ValueError, match=r"model has a leading axis of members, \(3,\)"):
        norm_price(members, run.tokens[None])
