"""A head's scores by source: terms by hand, their sums, and losses with some of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms
from circuitax.kernel.attention import causal_mask, masked_softmax
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model


def _terms(run, layer, head):
    names = score_terms.score_sources(run, layer)
    found = jax.jit(score_terms.score_terms, static_argnums=1)(run, layer, head)
    assert found.terms.shape[:2] == (len(names), len(names))
    return names, found


def _pattern(scores, run):
    index = jnp.arange(run.tokens.shape[0])
    return masked_softmax(scores, causal_mask(index, index, run.model.spec.causal))


def test_169_terms_sum_to_the_scores_of_a_second_layer_head(make_run, x64):
    run = make_run(2, n_heads=12, n_ctx=4)
    _, found = _terms(run, 1, 5)
    assert found.terms.shape[0] * found.terms.shape[1] == 169
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    x, heads = np.asarray(run.trace.streams[1]), run.model.blocks.attention
    scores = x @ heads.W_Q[1, 5] @ np.asarray(heads.W_K[1, 5]).T @ x.T * run.model.spec.scale
    np.testing.assert_allclose(found.terms.sum((0, 1)), scores, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned, "mlp": True},
        {"norm": Norm.rmsnorm, "positions": Positions.rotary, "d_head": 4},
        {"positions": Positions.shortformer_sinusoidal, "biases": True},
    ],
    ids=["layernorm_mlp", "rotary", "sinusoidal"],
)
def test_terms_give_back_the_pattern(options, make_run, x64):
    run = make_run(3, **options)
    _, found = _terms(run, 2, 1)
    pattern = _pattern(found.terms.sum((0, 1)), run)
    np.testing.assert_allclose(pattern, run.trace.patterns[2, 1], atol=1e-12)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)


def test_smeared_keys_are_linear_too(make_run, x64):
    run = make_run(2)
    heads = run.model.blocks.attention._replace(smear=jnp.array([[0.3, -1.0], [0.5, 2.0]]))
    model = Model(
        run.model.spec.replace(smeared_keys=True),
        run.model.W_E,
        run.model.W_U,
        run.model.blocks._replace(attention=heads),
    )
    smeared = run_model(model, run.tokens, outputs=True)
    _, found = _terms(smeared, 1, 0)
    pattern = _pattern(found.terms.sum((0, 1)), smeared)
    np.testing.assert_allclose(pattern, smeared.trace.patterns[1, 0], atol=1e-12)


def test_a_single_term_by_hand(make_run, x64):
    """(tokens, head 0.1) is ``x_E W_Q (A W_OV x_E W_K)ᵀ``: K-composition."""
    run = make_run(2)
    names, found = _terms(run, 1, 0)
    assert names == ("tokens", "head 0.0", "head 0.1")
    heads = run.model.blocks.attention
    x = np.asarray(run.trace.streams[0])
    written = np.asarray(run.trace.patterns[0, 1]) @ x @ heads.W_V[0, 1] @ heads.W_O[0, 1]
    expected = (x @ heads.W_Q[1, 0]) @ np.asarray(written @ heads.W_K[1, 0]).T
    np.testing.assert_allclose(found.terms[0, 2], expected * run.model.spec.scale, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"biases": True, "norm": Norm.layernorm, "positions": Positions.learned, "mlp": True},
        {"norm": Norm.rmsnorm, "positions": Positions.rotary, "d_head": 4},
        {"positions": Positions.shortformer_sinusoidal, "biases": True},
    ],
    ids=["layernorm_mlp", "rotary", "sinusoidal"],
)
def test_directions_of_scores_give_each_source_its_terms(options, make_run, x64):
    run = make_run(3, **options)
    names, found = _terms(run, 2, 1)
    weights = jnp.asarray([0.3, -1.2, 0.9, 0.4, -0.1, 0.2, 0.0, 1.0][: run.tokens.shape[0]])
    traced = jax.jit(score_terms.score_directions)
    told = traced(run, jnp.asarray(2), jnp.asarray(1), jnp.asarray(3), weights)
    by_pair = np.einsum("abs,s->ab", found.terms[:, :, 3], weights)
    np.testing.assert_allclose(told.value, by_pair.sum(), rtol=1e-9)
    parts = {"tokens": run.model.W_E[run.tokens], "head 1.0": run.trace.head_outputs[1, 0]}
    for name, part in parts.items():
        at = names.index(name)
        np.testing.assert_allclose((told.query * part).sum(), by_pair[at].sum(), rtol=1e-9)
        np.testing.assert_allclose((told.key * part).sum(), by_pair[:, at].sum(), rtol=1e-9)


def _dressed_parts(run, by):
    """The stream before layer 1 by source, each path multiplied out in NumPy."""
    x, blocks = np.asarray(run.trace.streams[0]), run.model.blocks
    n, A = x.shape[0], np.asarray(run.trace.patterns[0])
    V, O = np.asarray(blocks.attention.W_V[0]), np.asarray(blocks.attention.W_O[0])
    b_V, b_O = np.asarray(blocks.attention.b_V[0]), np.asarray(blocks.attention.b_O[0])
    mlp = blocks.mlp
    W_in, b_in, W_out, b_out = (
        np.asarray(w[0]) for w in (mlp.W_in, mlp.b_in, mlp.W_out, mlp.b_out)
    )
    heads = [A[h] @ (x @ V[h] + b_V[h]) @ O[h] for h in range(len(A))]
    opens = ((x + sum(heads) + b_O) @ W_in + b_in > 0).astype(float)
    X = [np.eye(x.shape[1]) + W_in @ np.diag(g) @ W_out for g in opens]
    constants = (opens * b_in) @ W_out + b_out

    def past(rows):
        return np.stack([row @ X[t] for t, row in enumerate(rows)])

    if by == "head":
        return np.stack([past(x + b_O) + constants, *map(past, heads)])
    from_biases = np.stack([A[h] @ np.ones((n, 1)) * (b_V[h] @ O[h]) for h in range(len(A))])
    parts = [past(from_biases.sum(axis=0) + b_O) + constants]
    for s in range(n):
        rows = np.eye(n)[:, s : s + 1] * x[s]
        rows = rows + sum(A[h][:, s : s + 1] * (x[s] @ V[h] @ O[h]) for h in range(len(A)))
        parts.append(past(rows))
    return np.stack(parts)


@pytest.mark.parametrize("by", ["head", "token"])
def test_dressed_terms_are_products_of_every_path(by, make_run, x64):
    run = make_run(2, mlp=True, biases=True, activation="relu")
    parts, heads = _dressed_parts(run, by), run.model.blocks.attention
    q, k = ([x @ W[1, 1] for x in parts] for W in (heads.W_Q, heads.W_K))
    q.append(np.broadcast_to(heads.b_Q[1, 1], q[0].shape))
    k.append(np.broadcast_to(heads.b_K[1, 1], k[0].shape))
    want = run.model.spec.scale * np.einsum("atk,bsk->abts", q, k)
    split = jax.jit(score_terms.dressed_score_terms, static_argnums=1, static_argnames="by")
    found = split(run, 1, 1, by=by)
    np.testing.assert_allclose(found.terms, want, atol=1e-12)
    np.testing.assert_allclose(found.remainder, 0, atol=1e-12)
    names = score_terms.dressed_score_sources(run, 1, by=by)
    assert names[0] == {"head": "direct", "token": "biases"}[by] and names[-1] == "bias"
    assert names[2] == {"head": "head 0.1", "token": "token 1"}[by]
    both = jax.vmap(lambda head: split(run, 1, head, by=by).terms)(jnp.arange(2))
    np.testing.assert_allclose(both[1], want, atol=1e-12)

    def of_key(W):
        model = run.model.replace(blocks=run.model.blocks._replace(attention=heads._replace(W_K=W)))
        again = run_model(model, run.tokens, outputs=True)
        return split(again, 1, 1, by=by).terms[0, 0].sum()

    slope = jax.grad(of_key)(heads.W_K)[1, 1]
    by_hand = run.model.spec.scale * np.outer(parts[0].sum(axis=0), q[0].sum(axis=0))
    np.testing.assert_allclose(slope, by_hand, atol=1e-10)


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


def test_a_selection_has_a_gradient(make_run):
    run = make_run(2)

    def loss(weight):
        selection = jnp.ones((1, 3, 3)).at[0, :, 1:].set(weight)
        return score_terms.score_selection_losses(run, 1, selection).mean()

    slope = jax.grad(loss)(1.0)
    numeric = (loss(1.01) - loss(0.99)) / 0.02
    np.testing.assert_allclose(slope, numeric, rtol=0.05, atol=1e-4)
