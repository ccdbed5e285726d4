"""Losses of terms against sums of the paths that each row keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms, term_losses
from circuitax.circuits.paths import expansion
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model


def _loss(logits, tokens):
    logits = np.asarray(logits)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -log_p[np.arange(len(tokens) - 1), np.asarray(tokens)[1:]]


@pytest.mark.parametrize("n_layers", [0, 1, 2, 3])
def test_rows_are_losses_of_the_paths_they_keep(n_layers, make_run, x64):
    run = make_run(n_layers, biases=True, norm=Norm.layernorm, positions=Positions.learned)
    found = jax.jit(term_losses.term_losses)(run)
    terms, bias = (np.asarray(x) for x in expansion.expand(run)[:2])
    layers = [{layer for layer, _ in path} for path in expansion.all_paths(n_layers, 2)]

    def kept(keep):
        # output biases belong to the direct path, so that sums of terms are the whole of it
        return _loss(terms[[keep(on) for on in layers]].sum(0) + bias[None], run.tokens)

    by_order = [kept(lambda on, k=k: len(on) <= k) for k in range(n_layers + 1)]
    np.testing.assert_allclose(found.order, by_order, atol=1e-10)
    rows = [kept(lambda on: not on)]
    rows += [kept(lambda on, one=layer: on <= {one}) for layer in range(n_layers)]
    rows += [kept(lambda on: len(on) <= 1), kept(lambda on: True)]
    np.testing.assert_allclose(found.first_order, rows, atol=1e-10)
    np.testing.assert_allclose(
        found.order[-1], next_token_losses(run.logits, run.tokens), atol=1e-10
    )


def test_what_mlps_wrote_counts_to_order_0(make_run, x64):
    run = make_run(2, mlp=True, norm=Norm.layernorm)
    found = term_losses.term_losses(run)
    whole = next_token_losses(run.logits, run.tokens)
    np.testing.assert_allclose(found.order[-1], whole, atol=1e-10)
    np.testing.assert_allclose(found.first_order[-1], whole, atol=1e-10)
    terms, bias = (np.asarray(x) for x in expansion.expand(run)[:2])
    lengths = np.array([len(path) for path in expansion.all_paths(2, run.model.spec.n_heads)])
    direct = _loss(terms[lengths == 0].sum(0) + bias[None], run.tokens)
    np.testing.assert_allclose(found.order[0], direct, atol=1e-10)


def test_selections_of_two_layers_by_hand():
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    np.testing.assert_array_equal(term_losses.first_order_selections(2), expected)
    with pytest.raises(ValueError, match="n_layers=-1"):
        term_losses.first_order_selections(-1)


def test_score_losses_without_composition(make_run, x64):
    """All terms give the model's loss; layer 0 has nothing that composes."""
    run = make_run(2, positions=Positions.shortformer)
    found = jax.jit(term_losses.score_losses)(run)
    assert len(found) == len(score_terms.SELECTIONS)
    whole = next_token_losses(run.logits, run.tokens)
    np.testing.assert_allclose(found[0], whole, atol=1e-12)
    assert np.abs(found[1:] - whole[None]).max(axis=1).min() > 1e-4
    np.testing.assert_allclose(term_losses.score_losses(run, 0), [whole] * 4, atol=1e-12)


def test_what_has_no_term_losses_is_refused(make_run):
    run = make_run(1, mlp=True, dtype=jnp.float32)
    with pytest.raises(ValueError, match="outputs=True"):
        term_losses.term_losses(run_model(run.model, run.tokens))
    with pytest.raises(ValueError, match="n_layers=9 must be at most 8"):
        term_losses.term_losses(make_run(9, dtype=jnp.float32))
    both = run_model(run.model, jnp.stack([run.tokens, run.tokens]))
    with pytest.raises(ValueError, match="run has 2 texts, must have one"):
        term_losses.term_losses(both)
    with pytest.raises(ValueError, match="outputs=True"):
        term_losses.score_losses(run_model(make_run(2, dtype=jnp.float32).model, run.tokens))
