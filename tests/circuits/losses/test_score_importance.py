"""Losses with patterns rebuilt from some terms of the scores, against a model run by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions

SOURCES = ("tokens", "head 0.0", "head 0.1")


def _losses(run, layer, selections):
    step = jax.jit(score_terms.score_selection_losses, static_argnums=1)
    return step(run, layer, selections)


def test_which_terms_compose():
    table = np.asarray(score_terms.composition_selections(SOURCES)).astype(int)
    assert table[0].all()
    np.testing.assert_array_equal(table[1], [[1, 1, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(table[2], [[1, 0, 0], [1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(table[3], [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("options", "n_sources"),
    [
        ({}, 3),
        ({"positions": Positions.shortformer}, 4),
        ({"biases": True, "norm": Norm.layernorm, "positions": Positions.learned, "mlp": True}, 7),
    ],
    ids=["plain", "shortformer", "layernorm_mlp"],
)
def test_all_terms_give_back_the_model(options, n_sources, make_run, x64):
    run = make_run(2, **options)
    losses = _losses(run, 1, jnp.ones((1, n_sources, n_sources)))
    np.testing.assert_allclose(losses[0], next_token_losses(run.logits, run.tokens), atol=1e-12)


def test_losses_without_composition_by_hand(make_run, x64):
    run = make_run(2)
    losses = _losses(run, 1, score_terms.composition_selections(SOURCES))
    W = jax.tree.map(np.asarray, run.model)
    heads = W.blocks.attention
    x0, x1 = (np.asarray(s) for s in run.trace.streams[:2])
    n_ctx = len(x0)
    future = np.triu(np.ones((n_ctx, n_ctx), bool), k=1)
    for row, (reads_q, reads_k) in enumerate([(x1, x1), (x0, x1), (x1, x0), (x0, x0)]):
        out = x1.copy()
        for h in range(heads.W_Q.shape[1]):
            q, k = reads_q @ heads.W_Q[1, h], reads_k @ heads.W_K[1, h]
            scores = np.where(future, -np.inf, run.model.spec.scale * q @ k.T)
            A = np.exp(scores - scores.max(1, keepdims=True))
            A /= A.sum(1, keepdims=True)
            out += A @ x1 @ heads.W_V[1, h] @ heads.W_O[1, h]
        z = out @ W.W_U
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
        want = -log_p[np.arange(n_ctx - 1), np.asarray(run.tokens)[1:]]
        np.testing.assert_allclose(losses[row], want, atol=1e-12)
    assert not np.allclose(losses[1], losses[2], atol=1e-3)


def test_no_terms_are_uniform_attention(rng):
    terms = jnp.asarray(rng.normal(size=(2, 3, 3, 4, 4)), jnp.float32)
    found = score_terms.rebuilt_patterns(terms, jnp.zeros((3, 3)), True)
    want = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    np.testing.assert_allclose(found, np.broadcast_to(want, (2, 4, 4)), rtol=1e-6)


def test_a_selection_has_a_gradient(make_run):
    run = make_run(2)

    def loss(weight):
        selection = jnp.ones((1, 3, 3)).at[0, :, 1:].set(weight)
        return score_terms.score_selection_losses(run, 1, selection).mean()

    slope = jax.grad(loss)(1.0)
    numeric = (loss(1.01) - loss(0.99)) / 0.02
    np.testing.assert_allclose(slope, numeric, rtol=0.05, atol=1e-4)


def test_refusals(make_run):
    run = make_run(2)
    with pytest.raises(ValueError, match=r"layer=2 must be from 0 to 1"):
        _losses(run, 2, jnp.ones((1, 3, 3)))
    with pytest.raises(ValueError, match=r"selections has shape \(1, 2, 2\), must end in \(3, 3\)"):
        _losses(run, 1, jnp.ones((1, 2, 2)))
