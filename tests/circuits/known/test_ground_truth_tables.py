"""Known tables of one layer read back: skip-trigrams, copying heads, "a unless b".

Thresholds, fixed before anything was measured, are halves: of the planted strength, of the
eigenvalues, of the tokens, of the raises. The gap's is a fifth of what 0.9 was known to leave.
"""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from circuitax.circuits import known as ground_truth
from circuitax.circuits import skip_trigrams
from circuitax.circuits.weights import heads, spectra, token_tables
from circuitax.kernel.run import run as run_model
from circuitax.kernel.weights import Blocks, HeadStack

V = 10
KEYS = jax.random.split(jax.random.key(2), 5)
PERFECT = (1, 1)  # precision, recall


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
        for j in range(len(KEYS)):
            token = rng.permutation(n_tokens).tolist()
            scores, raises = np.zeros((2, n_tokens, n_tokens))
            for source, dests, outs in blocks:
                for dest, out in product(dests, outs):
                    scores[token[dest], token[source]] = score
                    raises[token[source], token[out]] = raised
                    triple = (token[source], token[dest], token[out])
                    true.add((i * len(KEYS) + j, *triple))
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
    assert len(true) == len(KEYS) * (3 + 4 + 5 + 6)
    assert ground_truth.precision_recall(found, true) == PERFECT


def test_planted_skip_trigrams_stand_out_of_noise_and_drown_in_more():
    """Noise of a tenth of what was planted; then as large as it."""
    assert min(ground_truth.precision_recall(*_planted_and_found(noise=0.1))) > 0.9
    assert max(ground_truth.precision_recall(*_planted_and_found(noise=1.0))) < 0.5


def test_copying_scores_find_the_copying_head_among_others():
    """Others: one that lowers its token, one that raises the token's successor, five random."""
    n_heads = 8

    def make(key):
        model = ground_truth.copying_model(V, 1.0)
        noise, order = jax.random.split(key)
        known = 3 * jnp.stack([jnp.eye(V), -jnp.eye(V), jnp.roll(jnp.eye(V), 1, axis=1)])
        noise = jax.random.normal(noise, (n_heads, V, V))
        tables = noise.at[:3].set(known + noise[:3] / 2)
        order = jax.random.permutation(order, n_heads)
        W_Q, W_K, W_V, W_O, *_ = model.blocks.attention
        W_Q, W_K, W_V = (jnp.repeat(W, n_heads, axis=1) for W in (W_Q, W_K, W_V))
        stack = HeadStack(W_Q, W_K, W_V, (tables[order] @ W_O[0, 0])[None])
        ov = heads.token_ov(model.replace(blocks=Blocks(stack)))
        role = spectra.copying(ov, jnp.arange(V)).score
        scores = spectra.copying_score(ov), token_tables.copying_accuracy(ov), role
        return [x[0] for x in scores], jnp.argmin(order)

    scores, place = jax.jit(jax.vmap(make))(KEYS)
    true = set(enumerate(place.tolist()))
    # A role of 0 is half of the raises. No score may find more than the one head of each key.
    for score, threshold in zip(scores, (0.5, 0.5, 0.0), strict=True):
        found = np.argwhere(np.asarray(score) > threshold).tolist()
        assert ground_truth.precision_recall(map(tuple, found), true) == PERFECT


A, B, QUERY, OUT, OTHER, FILLER = range(6)


def _unless(high):
    """P(out | neither, b, a, both) = ½, ½, high, ½."""
    return ground_truth.unless_model(6, A, B, QUERY, OUT, OTHER, high)


def _sum(high):
    """The same cells ½, 1 - high, high, ½: b lowers as much as a raises, and both cancel."""
    logit = np.log(high / (1 - high))
    scores, raises = jnp.zeros((2, 6, 6))
    scores = scores.at[QUERY, jnp.array([A, B])].set(60.0)
    raises = raises.at[A, OUT].set(logit).at[B, OUT].set(-logit)
    bigram = jnp.full((6, 6), -60.0).at[:, jnp.array([OUT, OTHER])].set(0.0)
    return ground_truth.skip_trigram_model(scores, raises, bigram)


MODELS = {"unless": _unless, "sum": _sum}


def test_E11_the_additivity_gap_separates_unless_from_a_sum_of_skip_trigrams(x64):
    """Both have a softmax; only what the second computes is also a sum of skip-trigrams."""
    cells = jnp.array([[x, y, QUERY] for x, y in product((FILLER, A), (FILLER, B))])
    n, logits = 20, jax.jit(lambda model, texts: run_model(model, texts).logits[:, -1])
    fit = jax.jit(
        lambda x: skip_trigrams.fit(skip_trigrams.init_full(6), x, slice(-1, None), n_steps=30).loss
    )
    found, true = set(), set()
    for high, (name, make) in product((0.75, 0.85, 0.95), MODELS.items()):
        p = np.asarray(jax.nn.softmax(logits(make(high), cells)))[:, OUT]
        after_b = 0.5 if name == "unless" else 1 - high
        np.testing.assert_allclose(p, [0.5, after_b, high, 0.5], atol=1e-6)
        answers = np.where(np.arange(n) < np.round(n * p)[:, None], OUT, OTHER)
        texts = np.column_stack([np.repeat(cells, n, axis=0), answers.ravel()])
        entropy = -np.mean(p * np.log(p) + (1 - p) * np.log(1 - p))
        if fit(jnp.asarray(texts)) - entropy > 0.005:
            found.add((high, name))
        true.add((high, "unless"))
    assert ground_truth.precision_recall(found, true) == PERFECT
