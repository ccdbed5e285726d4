"""Models with known circuits: every analysis finds what is planted, and nothing else."""

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import detectors, known, score_terms
from circuitax.circuits import known as ground_truth
from circuitax.circuits.detectors import induction_scores
from circuitax.circuits.known import Strengths, offset_model, planted_model, unequal_heads
from circuitax.circuits.ledger import ledger
from circuitax.circuits.paths import frozen
from circuitax.circuits.weights import composition, heads, spectra, token_tables
from circuitax.circuits.weights.heads import head_qk, position_vectors, token_ov
from circuitax.circuits.weights.spectra import composed_keys
from circuitax.kernel.chain import materialise
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import Blocks, HeadStack

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


def test_precision_and_recall_by_hand():
    assert known.precision_recall([0, 1, 1, 2], [1, 3]) == (1 / 3, 1 / 2)
    pairs = [(0, "K"), (1, "V")]  # any names
    np.testing.assert_array_equal(known.precision_recall([], pairs), [np.nan, 0])
    np.testing.assert_array_equal(known.precision_recall(pairs, []), [0, np.nan])


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


ZOO_V, ZOO_N = 10, 16
KEYS = jax.random.split(jax.random.key(1), 5)
PERFECT = (1, 1)  # precision, recall


class Zoo(NamedTuple):
    """Models of several keys, each run on a batch of texts: ``[key, ...]`` on every leaf."""

    runs: Run
    at: dict[str, jax.Array]


def _texts(key):
    def text(period, key):  # never one period: positions alone must not be enough
        once = jax.random.permutation(key, ZOO_V - 1)[:period]
        return jnp.concatenate([jnp.array([ZOO_V - 1]), jnp.tile(once, 4)])[:ZOO_N]

    cases = zip((4, 5, 7), jax.random.split(key, 3), strict=True)
    return jnp.stack([text(*case) for case in cases])


def _known_heads(key):
    """The induction model with some distractors replaced, and the heads of each layer shuffled.

    In layer 0 a duplicate-token head, and one that attends to its own position, which has no role
    here. In layer 1 a relay: it attends to the previous token and raises the marker found there,
    which makes a virtual head of two: "the token two back, again".
    """
    key, *shuffles = jax.random.split(key, 3)
    model = ground_truth.induction_model(key, ZOO_V, ZOO_N)
    W_Q, W_K, W_V, W_O, *_ = model.blocks.attention
    read_token, read_place, read_marker = W_V[1, 0], W_K[0, 0], W_K[1, 0]
    sharp = W_Q.max()
    W_V, W_O = W_V.at[1, 1].set(read_marker), W_O.at[1, 1].set(W_O[1, 0])
    W_Q, W_K = W_Q.at[1, 1].set(W_Q[0, 0]), W_K.at[1, 1].set(read_place)
    W_Q, W_K = W_Q.at[0, 2].set(sharp * read_place), W_K.at[0, 2].set(read_place)
    # The same token, but not the same place: one score from two reads, side by side.
    W_Q, W_K = (jnp.concatenate([W, jnp.zeros_like(W)], axis=-1) for W in (W_Q, W_K))
    W_Q = W_Q.at[0, 1].set(sharp * jnp.concatenate([read_token, -read_place], axis=-1))
    W_K = W_K.at[0, 1].set(jnp.concatenate([read_token, read_place], axis=-1))
    orders = jnp.stack([jax.random.permutation(k, W_Q.shape[1]) for k in shuffles])
    heads = [jnp.stack([W[0][orders[0]], W[1][orders[1]]]) for W in (W_Q, W_K, W_V, W_O)]
    places = jnp.argsort(orders, axis=1)
    at = {
        "previous": places[0, 0],
        "duplicate": places[0, 1],
        "induction": places[1, 0],
        "relay": places[1, 1],
    }
    return model.replace(blocks=Blocks(HeadStack(*heads))), at


def _noise_like(key, model):
    """Normal entries in arrays of the same shapes and sizes."""
    leaves, tree = jax.tree.flatten(model)
    keys = jax.random.split(key, len(leaves))
    return tree.unflatten(
        [x.std() * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    )


@pytest.fixture(scope="module")
def zoos():
    """Known heads, and noise of the same shapes, on the same texts."""

    @jax.jit
    @jax.vmap
    def make(key):
        known, at = _known_heads(key)
        texts = _texts(key)
        models = known, _noise_like(key, known)
        return [Zoo(run_model(model, texts, outputs=True), at) for model in models]

    return make(KEYS)


def _member(zoo, key, text):
    """The run of one model on one text."""
    return jax.tree.map(lambda x: x[key], zoo.runs)[text]


def _over_keys(scores, threshold):
    """``(key, *index)`` of the scores above a threshold; the first axis is of keys."""
    return {tuple(index) for index in np.argwhere(np.asarray(scores) > threshold).tolist()}


def _heads(zoo, layer, name):
    return {(key, layer, head) for key, head in enumerate(zoo.at[name].tolist())}


def _found_roles(zoo):
    """Heads with half of their attention on a mask, or half of their raises on the token itself."""

    def attended(mask_of):
        def one(text, A):
            return detectors.detect(A, mask_of(text)).score

        return jax.vmap(jax.vmap(one))(zoo.runs.tokens, zoo.runs.trace.patterns).mean(axis=1)

    def copied(model):
        return spectra.copying(heads.token_ov(model), jnp.arange(ZOO_V)).score

    return {
        "previous": _over_keys(attended(detectors.previous_mask), 0.5),
        "duplicate": _over_keys(attended(detectors.duplicate_mask), 0.5),
        "prefix": _over_keys(attended(detectors.prefix_mask), 0.5),
        "copying": _over_keys(jax.vmap(copied)(zoo.runs.model), 0.0),
    }


def test_each_role_is_given_to_its_heads_and_to_no_others(zoos):
    known, noise = zoos
    true = {
        "previous": _heads(known, 0, "previous") | _heads(known, 1, "relay"),
        "duplicate": _heads(known, 0, "duplicate"),
        "prefix": _heads(known, 1, "induction"),
        "copying": _heads(known, 1, "induction"),
    }
    found = _found_roles(known)
    for role, of_role in true.items():
        assert ground_truth.precision_recall(found[role], of_role) == PERFECT, role
    # Where there is nothing to find neither share is defined: the sets are empty.
    assert not any(_found_roles(noise).values())


def _largest(z, n):
    """Indices of the n largest."""
    best = np.argsort(np.nan_to_num(np.asarray(z), nan=-np.inf), axis=None)[-n:]
    return zip(*np.unravel_index(best, z.shape), strict=True)


def test_composing_pairs_are_found_and_no_others(zoos):
    """K of the previous-token head with induction, V of it with the relay: z > 5, or two a key."""
    known, noise = zoos
    of = jax.jit(jax.vmap(lambda model: composition.composition(model).z))
    true = set()
    for kind, reader in (("K", "induction"), ("V", "relay")):
        pairs = zip(known.at["previous"].tolist(), known.at[reader].tolist(), strict=True)
        kind = composition.KINDS.index(kind)
        true |= {(key, kind, 0, first, 1, second) for key, (first, second) in enumerate(pairs)}
    z = of(known.runs.model)
    assert ground_truth.precision_recall(_over_keys(z, 5), true) == PERFECT
    assert ground_truth.precision_recall(_largest(z, 2 * len(KEYS)), true) == PERFECT
    assert not _over_keys(of(noise.runs.model), 5)


def _paths_by_hand(text, t, out, at):
    """Induction from each match that holds ``out``; the relay, if ``out`` is two back."""
    paths = {
        (((1, at["induction"]),), (s,))
        for s in range(1, t + 1)
        if text[s - 1] == text[t] and text[s] == out
    }
    if text[t - 2] == out:
        paths.add((((0, at["previous"]), (1, at["relay"])), (t - 2, t - 1)))
    return paths


def test_the_ledger_finds_the_paths_of_known_circuits_and_no_others(zoos):
    """At every position with a match, three logits: next token, two back, one that never stood."""
    zoo, _ = zoos
    found, true = set(), set()
    for i, j in product(range(len(KEYS)), range(3)):
        at = {name: int(head[i]) for name, head in zoo.at.items()}
        run = _member(zoo, i, j)
        model = frozen.frozen_model(run)
        text, directions = run.tokens.tolist(), list(run.model.W_U.T)
        absent = min(set(range(ZOO_V)) - set(text))
        for t in range(text.index(text[1], 2), ZOO_N - 1):
            for out in (text[t + 1], text[t - 2], absent):
                best = ledger.position_ledger(model, t, directions[out], k=6)
                named = zip(best.paths, best.positions, best.values, strict=True)
                found |= {(i, j, t, out, *path) for *path, value in named if value > 1}
                true |= {(i, j, t, out, *path) for path in _paths_by_hand(text, t, out, at)}
                assert best.complete
    assert len(true) > 300
    assert ground_truth.precision_recall(found, true) == PERFECT


def test_scores_of_the_induction_head_are_one_term_from_the_previous_token_head(zoos):
    """Query from the token, key from what head 0.0 wrote: at matches, and nowhere else."""
    zoo, _ = zoos

    def of_key(runs, head):
        def of_text(i):
            return jnp.tril(score_terms.score_terms(runs[i], 1, head).terms)

        return jnp.stack([of_text(i) for i in range(runs.n_texts)])

    terms = jax.jit(jax.vmap(of_key))(zoo.runs, zoo.at["induction"])
    first_head = 2  # after tokens and positions
    true = {
        (i, j, 0, first_head + int(zoo.at["previous"][i]), t, s)
        for i, texts in enumerate(zoo.runs.tokens.tolist())
        for j, text in enumerate(texts)
        for t, s in product(range(ZOO_N), range(ZOO_N))
        if s <= t and text[max(s - 1, 0)] == text[t]  # the first token marks itself
    }
    sharp = float(zoo.runs.model.blocks.attention.W_Q.max())
    assert ground_truth.precision_recall(_over_keys(terms, sharp / 2), true) == PERFECT


TABLES_KEYS = jax.random.split(jax.random.key(2), 5)
TABLES_PERFECT = (1, 1)  # precision, recall


# Source, destinations, outs. One head's triples multiply: the last has two that nobody wanted.
STRUCTURES = {
    "apart": [(0, [1], [2]), (3, [4], [5]), (6, [7], [8])],
    "one destination": [(0, [1], [2]), (3, [1], [4]), (5, [1], [2]), (6, [7], [8])],
    "two outs": [(0, [1], [2, 3]), (4, [5], [6]), (7, [8], [9]), (6, [7], [0])],
    "two destinations and two outs": [(0, [1, 2], [3, 4]), (5, [6], [7]), (8, [9], [3])],
}


def _planted_and_found(noise, n_tokens=12, score=9.0, raised=4.0):
    """Every structure in tokens of every key; found is what has half of the planted strength."""
    rng, tables, true = np.random.default_rng(0), [], set()
    for i, blocks in enumerate(STRUCTURES.values()):
        for j in range(len(TABLES_KEYS)):
            token = rng.permutation(n_tokens).tolist()
            scores, raises = np.zeros((2, n_tokens, n_tokens))
            for source, dests, outs in blocks:
                for dest, out in product(dests, outs):
                    scores[token[dest], token[source]] = score
                    raises[token[source], token[out]] = raised
                    triple = (token[source], token[dest], token[out])
                    true.add((i * len(TABLES_KEYS) + j, *triple))
            scores += noise * score * rng.normal(size=scores.shape)
            raises += noise * raised * rng.normal(size=raises.shape)
            tables.append((scores, raises, rng.normal(size=scores.shape)))

    @jax.jit
    @jax.vmap
    def top(scores, raises, bigram):
        model = ground_truth.skip_trigram_model(scores, raises, bigram)
        pick = jax.tree.map(
            lambda f: f[0, 0] if f.ndim == 4 else f,
            (heads.token_qk(model), heads.token_ov(model)),
        )
        return token_tables.top_triples(*pick, 8)  # fewer than the tokens: sources are ranked too

    found = top(*(jnp.asarray(np.stack(t), jnp.float32) for t in zip(*tables, strict=True)))
    triples = np.stack([*found[:3]], axis=-1).tolist()
    strong = np.argwhere(np.asarray(found.strength) > score * raised / 2).tolist()
    return {(i, *triples[i][k]) for i, k in strong}, true


def test_planted_skip_trigrams_are_found_and_no_others():
    found, true = _planted_and_found(noise=0.0)
    assert len(true) == len(TABLES_KEYS) * (3 + 4 + 5 + 6)
    assert ground_truth.precision_recall(found, true) == TABLES_PERFECT


def test_planted_skip_trigrams_stand_out_of_noise_and_drown_in_more():
    """Noise of a tenth of what was planted; then as large as it."""
    assert min(ground_truth.precision_recall(*_planted_and_found(noise=0.1))) > 0.9
    assert max(ground_truth.precision_recall(*_planted_and_found(noise=1.0))) < 0.5


TEXT = jnp.tile(jnp.array([5, 2, 7, 0, 3]), (1, 3))


def planted(strength: float, n_heads: int = 1) -> Strengths:
    return Strengths(*(jnp.full(n_heads, strength) for _ in range(3)))


def test_heads_of_strength_one_are_an_induction_circuit() -> None:
    model = planted_model(jax.random.key(0), planted(1.0), 8, 15)
    scores = induction_scores(model, TEXT)
    # The first token has no predecessor and marks itself: its repeats have two matches.
    assert scores.previous[0, 0] > 0.99 and scores.prefix[1, 0] > 0.9
    np.testing.assert_allclose(
        materialise(token_ov(model, centred=False))[1, 0], np.eye(8), atol=1e-6
    )


def test_heads_of_strength_minus_one_avoid_and_take_back() -> None:
    model = planted_model(jax.random.key(0), planted(-1.0), 8, 15)
    scores = induction_scores(model, TEXT)
    assert scores.previous[0, 0] < 1e-3
    np.testing.assert_allclose(
        materialise(token_ov(model, centred=False))[1, 0], -np.eye(8), atol=1e-6
    )


def test_the_planted_share_of_a_circuit_is_its_strength() -> None:
    strengths = Strengths(jnp.array([1.0, 1.0]), jnp.array([0.6, -0.2]), jnp.array([0.3, 0.8]))
    V = 400
    model = planted_model(jax.random.key(1), strengths, V, 4)
    for head in range(2):
        ov = np.asarray(materialise(token_ov(model, centred=False)))[1, head]
        queries, keys = composed_keys(model, (0, 0), 1)
        qk = np.asarray(materialise(queries))[head] @ np.asarray(materialise(keys))[head].T
        for circuit, strength in ((ov, strengths.copying), (qk, strengths.matching)):
            cosine = np.trace(circuit) / np.linalg.norm(circuit) / np.sqrt(V)
            # The random part has a trace of its own, of size 1 beside a norm of 20.
            assert cosine == pytest.approx(float(strength[head]), abs=4 / V)


def test_random_parts_differ_from_head_to_head_and_from_part_to_part() -> None:
    nothing = jax.tree.map(np.asarray, planted_model(jax.random.key(1), planted(0.0, 2), 12, 12))
    heads = nothing.blocks.attention
    drawn = [
        heads.W_Q[layer, head, rows, :12] / 24
        for layer, head, rows in (
            (0, 0, slice(12, 24)),
            (0, 1, slice(12, 24)),
            (1, 0, slice(0, 12)),
            (1, 1, slice(0, 12)),
        )
    ]
    drawn += [heads.W_V[1, head, :12, :12] for head in (0, 1)]
    flat = np.stack([part.ravel() / np.linalg.norm(part) for part in drawn])
    assert np.abs(flat @ flat.T - np.eye(6)).max() < 0.3  # 144 numbers: 0.08 is their deviation
    # As large as what is planted: the shift by one has 11 entries, the identities 12.
    sizes = [np.linalg.norm(part) for part in drawn]
    np.testing.assert_allclose(sizes, np.sqrt([11, 11, 12, 12, 12, 12]), rtol=0.25)


def test_the_score_of_a_shift_is_a_sum_of_cosines() -> None:
    with jax.enable_x64(True):
        offsets, d = np.array([0, 1, 5]), 12
        model = offset_model(jax.random.key(0), jnp.asarray(offsets), 6, d, 1.5)
        P = np.asarray(position_vectors(model, 9))
        qk = np.asarray(materialise(head_qk(model.blocks.attention, 1.0)))[0]
        frequencies = 10_000.0 ** (-np.arange(0, d, 2) / d)
        t, s = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
        for head, offset in enumerate(offsets):
            expected = 1.5 * np.cos(frequencies * (t - s - offset)[..., None]).sum(-1)
            np.testing.assert_allclose(P @ qk[head] @ P.T, expected, rtol=1e-9, atol=1e-9)


def test_each_head_writes_its_own_multiple(make_run) -> None:
    model = make_run(3, n_heads=40).model
    found = unequal_heads(jax.random.key(1), model, 1.5)
    ratio = np.asarray(found.blocks.attention.W_O / model.blocks.attention.W_O)
    logs = np.log(ratio).reshape(3, 40, -1)
    np.testing.assert_allclose(np.ptp(logs, axis=-1), 0, atol=1e-5)
    # 120 draws: the standard error of their deviation is 0.1.
    assert abs(logs[..., 0].std() - 1.5) < 0.4 and abs(logs.mean()) < 0.5
    for name in ("W_Q", "W_K", "W_V"):
        before, after = (getattr(m.blocks.attention, name) for m in (model, found))
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(found.W_U, model.W_U)
