"""Tables of tokens against whole matrices."""

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits.weights import heads, token_tables
from circuitax.circuits.weights.heads import token_ov, token_qk
from circuitax.circuits.weights.token_tables import rejoining
from circuitax.kernel.chain import materialise, rows
from circuitax.kernel.model import Model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import MLPWeights
from circuitax.models.transformer import init


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


def test_neuron_tables_are_products_with_the_embeddings(rng, x64):
    W_E, W_U = jnp.asarray(rng.normal(size=(9, 4))), jnp.asarray(rng.normal(size=(4, 9)))
    W_in, W_gate, W_out = (jnp.asarray(rng.normal(size=s)) for s in ((4, 3), (4, 3), (3, 4)))
    for gate, reads in ((None, W_in), (W_gate, W_gate)):
        found = token_tables.neuron_tables(MLPWeights(W_in, W_out, W_gate=gate), W_E, W_U, 2)
        keys, values = np.asarray(W_E @ reads).T, np.asarray(W_out @ W_U)
        np.testing.assert_array_equal(found.keys.columns, np.argsort(-keys, axis=1)[:, :2])
        np.testing.assert_allclose(found.values.values, -np.sort(-values, axis=1)[:, :2])


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


def tables(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """QK ``[head, dest, src]`` and OV ``[head, src, out]`` of the first layer."""
    qk, ov = (np.asarray(materialise(c(model))[0], float) for c in (token_qk, token_ov))
    return qk, ov


def model() -> Model:
    spec = TransformerSpec(d_vocab=13, n_ctx=6, n_layers=1, n_heads=2, d_model=8)
    return init(jax.random.key(3), spec)


def test_split_words_are_compared_with_the_pieces_of_other_words(x64: None) -> None:
    qk, ov = tables(model())
    first, second = [1, 5, 8, 2], [3, 6, 9, 11]
    expected = []
    for head in range(2):
        looks: list[float] = []
        raises: list[float] = []
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            to_all = np.array([qk[head, a, other] for other in second])
            from_all = np.array([ov[head, other, b] for other in second])
            for found, all_ in ((looks, to_all), (raises, from_all)):
                found.append((all_[i] - all_.mean()) / np.sqrt(((all_ - all_.mean()) ** 2).mean()))
        expected.append(min(np.mean(looks), np.mean(raises)))
    found = jax.jit(rejoining)(model(), jnp.array(first), jnp.array(second))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
