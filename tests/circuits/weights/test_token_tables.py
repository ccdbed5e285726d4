"""Token tables against dense V × V and V × V × V arrays."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.weights import heads, token_tables
from circuitax.kernel.chain import materialise, rows
from circuitax.kernel.weights import MLPWeights


def _circuits(run, head):
    qk, ov = heads.token_qk(run.model), heads.token_ov(run.model)
    pick = [jax.tree.map(lambda f: f[0, head] if f.ndim == 4 else f, c) for c in (qk, ov)]
    return pick, [np.asarray(materialise(c)) for c in pick]


def test_copying_accuracy_counts_tokens_that_raise_themselves(make_run, x64):
    run = make_run(2, d_vocab=30)
    ov = heads.token_ov(run.model)
    dense = np.asarray(materialise(ov))
    for k in (1, 5):
        found = jax.jit(token_tables.copying_accuracy, static_argnums=1)(ov, k)
        best = np.argsort(-dense, axis=-1)[..., :k]
        expected = (best == np.arange(30)[:, None]).any(-1).mean(-1)
        np.testing.assert_allclose(found, expected)
    assert found.max() > 0


def test_S0_table_1_rows_follow_the_stated_rule(make_run, x64):
    run = make_run(1, d_vocab=30)
    (qk, ov), (scores, raises) = _circuits(run, 1)
    found = jax.jit(token_tables.skip_trigrams, static_argnums=(2, 3))(qk, ov, 4, 3)
    weight = np.maximum(scores.max(0), 0) * np.maximum(raises.max(1), 0)
    np.testing.assert_array_equal(found.sources, np.argsort(-weight)[:4])
    for row, source in enumerate(np.asarray(found.sources)):
        np.testing.assert_array_equal(found.destinations[row], np.argsort(-scores[:, source])[:3])
        np.testing.assert_array_equal(found.outs[row], np.argsort(-raises[source])[:3])
        np.testing.assert_allclose(found.raises[row], np.sort(raises[source])[::-1][:3])


def test_top_triples_are_those_of_the_whole_cube(make_run, x64):
    run = make_run(1, d_vocab=12)
    (qk, ov), (scores, raises) = _circuits(run, 0)
    cube = np.maximum(scores.T, 0)[:, :, None] * np.maximum(raises, 0)[:, None, :]
    found = jax.jit(token_tables.top_triples, static_argnums=2)(qk, ov, 10)
    best = np.argsort(-cube.ravel())[:10]
    np.testing.assert_allclose(found.strength, cube.ravel()[best], rtol=1e-10)
    expected = np.stack(np.unravel_index(best, cube.shape))
    np.testing.assert_array_equal([found.source, found.destination, found.out], expected)


@pytest.mark.parametrize("k", [0, 13])
def test_more_triples_than_tokens_are_refused(k, make_run):
    (qk, ov), _ = _circuits(make_run(1, d_vocab=12, dtype=jnp.float32), 0)
    with pytest.raises(ValueError, match=f"k={k} must be from 1 to d_vocab=12"):
        token_tables.top_triples(qk, ov, k)
    with pytest.raises(ValueError, match=f"n_sources={k} must be from 1 to d_vocab=12"):
        token_tables.skip_trigrams(qk, ov, k, 2)


def test_tables_are_of_one_head(make_run):
    run = make_run(1, dtype=jnp.float32)
    qk, ov = heads.token_qk(run.model), heads.token_ov(run.model)
    one = [jax.tree.map(lambda f: f[0, 0] if f.ndim == 4 else f, c) for c in (qk, ov)]
    for find in (token_tables.top_triples, partial(token_tables.skip_trigrams, n_sources=2)):
        with pytest.raises(ValueError, match=r"qk has shape \(1, 2, 7, 7\), must be one head's"):
            find(qk, one[1], k=2)
        with pytest.raises(ValueError, match=r"ov has shape \(1, 2, 7, 7\), must be one head's"):
            find(one[0], ov, k=2)


def test_neuron_tables_are_products_with_the_embeddings(rng, x64):
    W_E, W_U = jnp.asarray(rng.normal(size=(9, 4))), jnp.asarray(rng.normal(size=(4, 9)))
    W_in, W_gate, W_out = (jnp.asarray(rng.normal(size=s)) for s in ((4, 3), (4, 3), (3, 4)))
    for gate, reads in ((None, W_in), (W_gate, W_gate)):
        found = token_tables.neuron_tables(MLPWeights(W_in, W_out, W_gate=gate), W_E, W_U, 2)
        keys, values = np.asarray(W_E @ reads).T, np.asarray(W_out @ W_U)
        np.testing.assert_array_equal(found.keys.columns, np.argsort(-keys, axis=1)[:, :2])
        np.testing.assert_allclose(found.values.values, -np.sort(-values, axis=1)[:, :2])


def test_units_of_a_deeper_mlp_have_no_key_beside_their_value(rng):
    maps = [jnp.asarray(rng.normal(size=s)) for s in ((4, 3), (3, 4), (1, 3, 3), (9, 4), (4, 9))]
    W_in, W_out, W_hidden, W_E, W_U = maps
    deeper = MLPWeights(W_in, W_out, W_hidden=W_hidden)
    message = r"mlp\.W_hidden has shape \(1, 3, 3\), must be None \(mlp_depth=1\)"
    with pytest.raises(ValueError, match=message):
        token_tables.neuron_tables(deeper, W_E, W_U, 2)
    stacked = MLPWeights(W_in[None], W_out[None])
    with pytest.raises(ValueError, match=r"mlp\.W_in has shape \(1, 4, 3\), must be one layer's"):
        token_tables.neuron_tables(stacked, W_E, W_U, 2)
    with pytest.raises(ValueError, match="k=10"):
        token_tables.neuron_tables(MLPWeights(W_in, W_out), W_E, W_U, 10)


@pytest.mark.parametrize("k", [0, 8])
def test_copying_accuracy_of_more_tokens_than_there_are_is_refused(k, make_run):
    run = make_run(1, dtype=jnp.float32)
    with pytest.raises(ValueError, match=f"k={k} must be from 1 to d_vocab=7"):
        token_tables.copying_accuracy(heads.token_ov(run.model), k)


def test_destination_and_source_are_not_swapped(make_run, x64):
    """The table's columns are sources: with one destination row changed, only it changes."""
    run = make_run(1, d_vocab=12)
    (qk, ov), (scores, _) = _circuits(run, 0)
    found = token_tables.skip_trigrams(qk, ov, 1, 1)
    source, destination = int(found.sources[0]), int(found.destinations[0, 0])
    np.testing.assert_allclose(found.scores[0, 0], scores[destination, source], rtol=1e-10)
    assert abs(scores[source, destination] - scores[destination, source]) > 1e-6
    np.testing.assert_allclose(
        materialise(rows(qk, jnp.array([destination])))[0, source], found.scores[0, 0]
    )
