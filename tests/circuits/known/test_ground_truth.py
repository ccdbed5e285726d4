"""Known circuits found again by detectors, composition ranking and path search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import detectors, known
from circuitax.circuits.ledger import ledger
from circuitax.circuits.weights import composition, heads, spectra, token_tables
from circuitax.kernel.model import Model
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import HeadStack

V, N = 10, 16
RUN = jax.jit(run_model)


@pytest.fixture(scope="module")
def induction():
    model = known.induction_model(jax.random.key(0), V, N)
    texts = []
    for period in (4, 5, 7):  # never one period: positions alone must not be enough
        once = jax.random.permutation(jax.random.key(period), V - 1)[:period]
        texts.append(jnp.concatenate([jnp.array([V - 1]), jnp.tile(once, 4)])[:N])
    return [RUN(model, text) for text in texts]


def test_the_hand_built_model_does_induction(induction):
    for run in induction:
        text = run.tokens
        repeat = 2 + int(jnp.argmax(text[2:] == text[1]))
        np.testing.assert_array_equal(run.logits[repeat:-1].argmax(-1), text[repeat + 1 :])


def test_detectors_find_the_two_heads_and_no_other(induction):
    cases = {
        "previous": (detectors.previous_mask, [0]),
        "prefix": (detectors.prefix_mask, [4]),
    }
    for mask_of, true in cases.values():
        scores = np.mean(
            [detectors.detect(run.trace.patterns, mask_of(run.tokens)).score for run in induction],
            axis=0,
        )
        found = np.flatnonzero(scores.ravel() > 0.6)
        assert known.precision_recall(found, true) == (1, 1)


def test_precision_and_recall_by_hand():
    assert known.precision_recall([0, 1, 1, 2], [1, 3]) == (1 / 3, 1 / 2)
    pairs = [(0, "K"), (1, "V")]  # any names
    np.testing.assert_array_equal(known.precision_recall([], pairs), [np.nan, 0])
    np.testing.assert_array_equal(known.precision_recall(pairs, []), [0, np.nan])


def test_composition_ranks_the_true_pair_first(induction):
    found = jax.jit(composition.composition)(induction[0].model)
    z = np.nan_to_num(np.asarray(found.z), nan=-np.inf)
    kind, *pair = np.unravel_index(z.argmax(), z.shape)
    assert composition.KINDS[kind] == "K" and pair == [0, 0, 1, 0]
    assert z[1, 0, 0, 1, 0] > 10
    others = np.delete(z[1, 0, :, 1].ravel(), 0)
    assert others.max() < 3


def test_half_of_a_read_is_enough_to_find_a_composing_pair():
    """Random heads, one pair of each kind: half of the reader's squared norm is the writer's."""
    n_heads, d, k = 4, 32, 4

    def plant(key):
        key, order = jax.random.split(key)
        W_Q, W_K, W_V, W_O = jax.random.normal(key, (4, 2, n_heads, d, k))
        orders = [jax.random.permutation(o, n_heads)[:3] for o in jax.random.split(order)]
        reads = jnp.stack([W_Q[1], W_K[1], W_V[1]])
        for kind, (writer, reader) in enumerate(zip(*orders, strict=True)):
            reads = reads.at[kind, reader].add(W_O[0, writer])
        W_Q, W_K, W_V = (W.at[1].set(R) for W, R in zip((W_Q, W_K, W_V), reads, strict=True))
        stack = HeadStack(W_Q, W_K, W_V, jnp.matrix_transpose(W_O))
        model = Model.of(W_E=jnp.eye(d), W_U=jnp.eye(d), attention=stack)
        return composition.composition(model).z, jnp.stack(orders, axis=1)

    z, pairs = jax.jit(jax.vmap(plant))(jax.random.split(jax.random.key(3), 5))
    true = {
        (key, kind, 0, writer, 1, reader)
        for key, of_key in enumerate(pairs.tolist())
        for kind, (writer, reader) in enumerate(of_key)
    }
    found = map(tuple, np.argwhere(np.asarray(z) > 5))
    assert known.precision_recall(found, true) == (1, 1)


def test_the_ledger_names_the_induction_head(induction):
    """The logit of the right token is one path: token → head 1.0, straight from the match."""
    run = induction[0]
    right = int(run.tokens[11])
    found = ledger.ledger(run, token=right, position=10, k=3, by_position=True)
    assert found.paths[0] == ((1, 0),)
    assert all(int(run.tokens[source]) == right for source in found.positions[0])
    np.testing.assert_allclose(found.found + found.remainder, run.logits[10, right], atol=1e-4)


def test_the_induction_head_copies_and_matches(induction):
    model = induction[0].model
    ov = heads.token_ov(model)
    copying = spectra.copying_score(ov)
    assert copying[1, 0] > 0.99
    assert token_tables.copying_accuracy(ov)[1, 0] == 1
    np.testing.assert_allclose(spectra.copying(ov, jnp.arange(6)).score[1, 0], 1, atol=1e-3)
    queries, keys = spectra.composed_keys(model, (0, 0), 1)
    _, matching = spectra.same_matching(queries, keys)
    assert matching[0] > 0.99 and np.abs(matching[1:]).max() < 0.9


def test_skip_trigram_tables_are_read_back(rng):
    """Top triples of the circuits = the triples that were planted."""
    planted = [(1, 2, 3), (4, 5, 6), (7, 2, 9)]
    scores, raises = np.zeros((V, V)), np.zeros((V, V))
    for source, destination, out in planted:
        scores[destination, source], raises[source, out] = 9.0, 4.0
    bigram = rng.normal(size=(V, V))
    model = known.skip_trigram_model(
        *(jnp.asarray(x, jnp.float32) for x in (scores, raises, bigram))
    )
    qk, ov = heads.token_qk(model), heads.token_ov(model)
    pick = [jax.tree.map(lambda f: f[0, 0] if f.ndim == 4 else f, c) for c in (qk, ov)]
    found = jax.jit(token_tables.top_triples, static_argnums=2)(*pick, 3)
    triples = set(zip(*(np.asarray(x).tolist() for x in found[:3]), strict=True))
    assert triples == set(planted)
    text = jnp.array([0, 1, 8, 2])
    logits = run_model(model, text).logits
    lift = np.asarray(logits[-1]) - bigram[2]
    assert lift.argmax() == 3 and abs(lift[3] - 4) < 0.01


def test_copying_model_raises_what_it_sees():
    model = known.copying_model(V, 5.0)
    text = jnp.array([3, 3, 7])
    logits = run_model(model, text).logits
    np.testing.assert_allclose(logits[-1, jnp.array([3, 7, 0])], [10 / 3, 5 / 3, 0], atol=1e-5)


def test_E11_one_head_computes_a_unless_b():
    """½, high, ½, ½: exact for the head, impossible for a sum over sources."""
    model = known.unless_model(10, 0, 1, 2, 3, 4, 0.9)
    cells = [[6, 7, 2], [0, 7, 2], [6, 1, 2], [0, 1, 2]]
    logits = run_model(model, cells).logits[:, -1]
    p_out = [float(jax.nn.softmax(z)[3]) for z in logits]
    np.testing.assert_allclose(p_out, [0.5, 0.9, 0.5, 0.5], atol=1e-5)
    lead = np.array([float(z[3] - z[4]) for z in logits])
    # Printed form (S0 Thm. 25, "an ensemble"): in logits "both" would be a + b - neither.
    assert abs(lead[3] - (lead[1] + lead[2] - lead[0])) > 2
