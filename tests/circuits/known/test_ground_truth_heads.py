"""Heads of known circuits, hidden among others at five keys: precision and recall of every search.

Thresholds are those that mean something, fixed before anything was measured: half of the attention,
half of the raises, half of a match's score, five deviations of the null, and one nat of the eight
that a path raises. Counts are pooled over keys.
"""

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import detectors, score_terms
from circuitax.circuits import known as ground_truth
from circuitax.circuits.ledger import ledger
from circuitax.circuits.paths import frozen
from circuitax.circuits.weights import composition, heads, spectra
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import Blocks, HeadStack

V, N = 10, 16
KEYS = jax.random.split(jax.random.key(1), 5)
PERFECT = (1, 1)  # precision, recall


class Zoo(NamedTuple):
    """Models of several keys, each run on a batch of texts: ``[key, ...]`` on every leaf."""

    runs: Run
    at: dict[str, jax.Array]


def _texts(key):
    def text(period, key):  # never one period: positions alone must not be enough
        once = jax.random.permutation(key, V - 1)[:period]
        return jnp.concatenate([jnp.array([V - 1]), jnp.tile(once, 4)])[:N]

    cases = zip((4, 5, 7), jax.random.split(key, 3), strict=True)
    return jnp.stack([text(*case) for case in cases])


def _known_heads(key):
    """The induction model with some distractors replaced, and the heads of each layer shuffled.

    In layer 0 a duplicate-token head, and one that attends to its own position, which has no role
    here. In layer 1 a relay: it attends to the previous token and raises the marker found there,
    which makes a virtual head of two: "the token two back, again".
    """
    key, *shuffles = jax.random.split(key, 3)
    model = ground_truth.induction_model(key, V, N)
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
        return spectra.copying(heads.token_ov(model), jnp.arange(V)).score

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
        absent = min(set(range(V)) - set(text))
        for t in range(text.index(text[1], 2), N - 1):
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
        for t, s in product(range(N), range(N))
        if s <= t and text[max(s - 1, 0)] == text[t]  # the first token marks itself
    }
    sharp = float(zoo.runs.model.blocks.attention.W_Q.max())
    assert ground_truth.precision_recall(_over_keys(terms, sharp / 2), true) == PERFECT
