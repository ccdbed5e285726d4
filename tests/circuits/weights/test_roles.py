"""Roles on circuits whose answer is known, and loops in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights import heads, spectra
from circuitax.kernel.chain import chain_of
from circuitax.kernel.run import run as run_model


def test_copying_is_the_share_of_the_own_token(rng, x64):
    W = rng.normal(size=(2, 9, 9))
    tokens = np.array([1, 4, 7, 8])
    found = spectra.copying(chain_of(jnp.asarray(W)), jnp.asarray(tokens))
    for head in range(2):
        own = total = 0.0
        for u in tokens:
            row = W[head, u, tokens] - W[head, u, tokens].mean()
            own += max(W[head, u, u] - W[head, u, tokens].mean(), 0)
            total += np.maximum(row, 0).sum()
        np.testing.assert_allclose(found.score[head], 2 * own / total - 1, rtol=1e-12)
    eye = chain_of(jnp.eye(9))
    np.testing.assert_allclose(spectra.copying(eye, jnp.asarray(tokens)).score, 1)
    np.testing.assert_allclose(
        spectra.copying(chain_of(-jnp.eye(9)), jnp.asarray(tokens)).score, -1
    )
    assert found.null == -0.5


def test_random_circuits_copy_by_chance(rng):
    W = jnp.asarray(rng.normal(size=(300, 10, 10)), jnp.float32)
    found = spectra.copying(chain_of(W), jnp.arange(10))
    assert abs(found.score.mean() - found.null) < 5 * found.score.std() / np.sqrt(300)


def test_name_movers_attend_to_names_and_copy_them():
    tokens = jnp.array([5, 0, 3, 1, 4])
    names = jnp.array([True, False, True, False, False])
    pattern = jnp.array([[[0.6, 0.1, 0.3, 0.0, 0.0]]] * 3)
    copy, anti = jnp.eye(6), -jnp.eye(6)
    only_one = jnp.eye(6).at[3, 3].set(-1)  # copies token 5 and not token 3
    ov = chain_of(jnp.stack([copy, anti, only_one]))
    found = spectra.name_moving(pattern, ov, tokens, names)
    np.testing.assert_allclose(found.score, [0.9, 0, 0.6], rtol=1e-6)
    assert found.null == 0.2


def test_memory_managers_write_against_the_stream(make_run, x64):
    """A head that attends to itself and writes minus the stream has both signs negative."""
    run = make_run(1, d_model=7, d_value=7, d_head=7)
    attention = run.model.blocks.attention
    eye = jnp.eye(7)
    heads_ = attention._replace(
        W_Q=attention.W_Q.at[0, 0].set(40 * eye),
        W_K=attention.W_K.at[0, 0].set(eye),
        W_V=attention.W_V.at[0, 0].set(eye),
        W_O=attention.W_O.at[0, 0].set(-eye),
    )
    model = run.model.replace(W_E=eye, W_U=eye, blocks=run.model.blocks._replace(attention=heads_))
    ov = heads.token_ov(model)
    found = jax.jit(spectra.memory_management)(run_model(model, jnp.arange(5), outputs=True), ov)
    np.testing.assert_allclose(found.alignment[0, 0], -1, atol=1e-4)
    np.testing.assert_allclose(found.own_token[0, 0], -(1 - 1 / 7), atol=1e-4)
    assert found.alignment[0, 1] > -0.9


def test_a_trace_without_outputs_is_refused(make_run):
    run = make_run(1, dtype=jnp.float32)
    ov = heads.token_ov(run.model)
    with pytest.raises(ValueError, match=r"run\.trace\.head_outputs is None"):
        spectra.memory_management(run_model(run.model, run.tokens), ov)


def test_arguments_that_do_not_fit_are_named(make_run):
    run = make_run(1, dtype=jnp.float32)
    ov = heads.token_ov(run.model)
    one = jax.tree.map(lambda f: f[:, :1] if f.ndim == 4 else f, ov)
    with pytest.raises(ValueError, match=r"ov has shape \(1, 1, 7, 7\), must start with \[1, 2\]"):
        spectra.memory_management(run, one)
    texts = run_model(run.model, jnp.stack([run.tokens] * 3), outputs=True)
    with pytest.raises(ValueError, match="run has 3 texts, must have one"):
        spectra.memory_management(texts, ov)
    with pytest.raises(ValueError, match="tokens has 1 entries, must have at least 2"):
        spectra.copying(ov, jnp.array([3]))
    names = jnp.array([True, False, True, False, False])
    with pytest.raises(ValueError, match="dest=5 must be from -5 to 4"):
        spectra.name_moving(run.trace.patterns, ov, run.tokens, names, dest=5)
