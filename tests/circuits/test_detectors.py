"""Detectors of heads against loops over positions, written from the definitions."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import detectors
from circuitax.circuits.detectors import (
    head_copying,
    induction_scores,
    shares_at_repeats,
    sums_at_repeats,
)
from circuitax.circuits.known import copying_model
from circuitax.circuits.losses import repeated_pairs
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.forward import forward
from circuitax.kernel.model import Model
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.kernel.weights import HeadStack
from circuitax.models.transformer import init

TOKENS = np.array([3, 1, 4, 1, 5, 3, 1, 4, 4])


def _pattern(rng, n, heads=(2, 3)):
    raw = np.tril(rng.random((*heads, n, n)))
    return raw / raw.sum(-1, keepdims=True)


def _by_loop(pattern, tokens, rule):
    """Mean attention on the sources for which ``rule(t, s)`` holds, and its uniform null."""
    total, uniform, n_dest = 0.0, 0.0, 0
    for t in range(len(tokens)):
        sources = [s for s in range(t + 1) if rule(t, s)]
        if sources:
            total = total + pattern[..., t, sources].sum(-1)
            uniform += len(sources) / (t + 1)
            n_dest += 1
    return total / n_dest, uniform / n_dest, n_dest


RULES = {
    "previous": (detectors.previous_mask, lambda t, s: s == t - 1),
    "duplicate": (detectors.duplicate_mask, lambda t, s: s < t and TOKENS[s] == TOKENS[t]),
    "prefix": (
        detectors.prefix_mask,
        lambda t, s: s >= 1 and TOKENS[s - 1] == TOKENS[t] and s - 1 < t,
    ),
    "induction": (
        detectors.induction_mask,
        lambda t, s: (
            s >= 1
            and s - 1 < t < len(TOKENS) - 1
            and TOKENS[s - 1] == TOKENS[t]
            and TOKENS[s] == TOKENS[t + 1]
        ),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_scores_match_a_loop_over_positions(name, rng, x64):
    mask_of, rule = RULES[name]
    pattern = _pattern(rng, len(TOKENS))
    found = jax.jit(detectors.detect)(pattern, mask_of(jnp.asarray(TOKENS)))
    score, null, n_dest = _by_loop(pattern, TOKENS, rule)
    np.testing.assert_allclose(found.score, score, rtol=1e-12)
    np.testing.assert_allclose(found.null, null, rtol=1e-12)
    assert found.n_dest == n_dest > 0


def test_masks_by_hand():
    # a b a b: at position 2 (a) the prefix match is 1, at 3 (b) it is 2
    tokens = jnp.array([0, 1, 0, 1])
    np.testing.assert_array_equal(np.argwhere(detectors.prefix_mask(tokens)), [[2, 1], [3, 2]])
    np.testing.assert_array_equal(np.argwhere(detectors.induction_mask(tokens)), [[2, 1]])
    np.testing.assert_array_equal(np.argwhere(detectors.duplicate_mask(tokens)), [[2, 0], [3, 1]])


def test_prefix_matching_means_followed_by():
    """Attending to what stood *before* the earlier copy, the paper's first wording, scores 0."""
    tokens = jnp.array([7, 0, 1, 2, 0])
    follows, precedes = np.zeros((2, 5, 5), np.float32)
    follows[4, 2] = precedes[4, 0] = 1
    assert detectors.detect(jnp.asarray(follows), detectors.prefix_mask(tokens)).score == 1
    assert detectors.detect(jnp.asarray(precedes), detectors.prefix_mask(tokens)).score == 0


def test_repeats_of_any_period_are_found_and_a_fixed_offset_is_not():
    """A head that looks back a fixed number of steps cannot pass for a prefix matcher."""
    key = jax.random.key(0)
    scores = {}
    for period in (5, 8):
        once = jax.random.permutation(jax.random.fold_in(key, period), 20)[:period]
        tokens = jnp.tile(once, 3)
        mask = detectors.prefix_mask(tokens)
        rows = mask.sum(axis=-1, keepdims=True)
        perfect = jnp.where(rows > 0, mask / jnp.maximum(rows, 1), 0)
        fixed = jnp.eye(tokens.shape[0], k=-(5 - 1))
        scores[period] = detectors.detect(jnp.stack([perfect, fixed]), mask).score
    np.testing.assert_allclose(scores[5], [1, 1], atol=1e-6)
    np.testing.assert_allclose(scores[8], [1, 0], atol=1e-6)


def test_user_masks_not_causal(rng):
    mask = jnp.zeros((3, 3), bool).at[0, 2].set(True)
    pattern = jnp.full((3, 3), 1 / 3)
    assert detectors.detect(pattern, mask).n_dest == 0
    assert detectors.detect(pattern, mask).score == 0
    open_ended = detectors.detect(pattern, mask, causal=False)
    np.testing.assert_allclose([open_ended.score, open_ended.null], 1 / 3, rtol=1e-6)


def test_shuffled_null_sits_on_the_uniform_null_for_positional_heads(rng):
    """The previous-token head has prefix score by accident only: the null's mean says how much."""
    n, vocab = 64, 8
    tokens = jnp.asarray(rng.integers(0, vocab, n))
    pattern = jnp.eye(n, k=-1)
    null = jax.jit(detectors.shuffled_null, static_argnums=3)(
        jax.random.key(1), pattern, tokens, detectors.prefix_mask
    )
    score = detectors.detect(pattern, detectors.prefix_mask(tokens)).score
    assert abs(score - null.mean) < 4 * null.std
    prefix = detectors.prefix_mask(tokens)
    matcher = prefix / jnp.maximum(prefix.sum(axis=-1, keepdims=True), 1)
    null = jax.jit(detectors.shuffled_null, static_argnums=3)(
        jax.random.key(1), matcher, tokens, detectors.prefix_mask
    )
    assert 1 - null.mean > 10 * null.std


def random_model(d_vocab: int = 7, d_model: int = 5, n_heads: int = 2) -> Model:
    rng = np.random.default_rng(0)
    shapes = {"W_Q": (d_model, 3), "W_K": (d_model, 3), "W_V": (d_model, 4), "W_O": (4, d_model)}
    heads = (rng.normal(size=(2, n_heads, *shape)) for shape in shapes.values())
    return Model.of(
        W_E=rng.normal(size=(d_vocab, d_model)),
        W_U=rng.normal(size=(d_model, d_vocab)),
        attention=HeadStack(*heads),
    )


def test_both_scores_are_those_of_sums_written_out() -> None:
    with jax.enable_x64(True):
        text = np.array([3, 1, 3, 6, 0])
        seen = run(random_model(), jnp.asarray(text), outputs=True)
        found = head_copying(seen)
        outputs, patterns = (np.asarray(a) for a in (seen.trace.head_outputs, seen.trace.patterns))
        W_U = np.asarray(seen.model.W_U)
        for place in np.ndindex(2, 2):
            shares, cosines = [], []
            for t in range(len(text)):
                raises = outputs[place][t] @ W_U
                raises = raises - raises.mean()
                attended = np.zeros(7)
                for s in range(t + 1):
                    attended[text[s]] += patterns[place][t, s]
                up = np.where(raises > 0, raises, 0)
                shares.append((up * attended).sum() / attended.max() / up.sum())
                cosines.append(np.corrcoef(raises, attended)[0, 1])
            np.testing.assert_allclose(found.raised[place], np.mean(shares), rtol=1e-9)
            np.testing.assert_allclose(found.cosine[place], np.mean(cosines), rtol=1e-9)


@pytest.mark.parametrize(("strength", "raised", "cosine"), [(2.0, 1.0, 1.0), (-2.0, 0.0, -1.0)])
def test_a_head_that_copies_what_it_attends_to(
    strength: float, raised: float, cosine: float
) -> None:
    text = jnp.array([4, 0, 2, 5])  # all others of the nine are raised by a head that erases
    found = head_copying(run(copying_model(9, strength), text, outputs=True))
    np.testing.assert_allclose(found.raised[0, 0], raised, atol=1e-6)
    np.testing.assert_allclose(found.cosine[0, 0], cosine, atol=1e-6)


def test_sums_and_shares_by_loops(make_run, x64):
    base = make_run(2, positions=Positions.learned, norm=Norm.rmsnorm, n_ctx=12)
    text = np.array([0, 3, 1, 3, 1, 2, 0, 3, 1, 3, 2, 0])
    run = run_model(base.model, text)
    repeats = repeated_pairs(run.tokens)
    sums = jax.jit(sums_at_repeats)(run, repeats)
    A, heads = np.asarray(run.trace.patterns), run.model.blocks.attention
    streams, scales = np.asarray(run.trace.streams), np.asarray(run.trace.scales.attention)
    W_U = np.asarray(run.model.W_U)
    directions = (W_U - W_U.mean(1, keepdims=True)).T
    final = np.asarray(run.trace.scales.final)
    at = [t for t in range(11) if (text[t], text[t + 1]) in itertools.pairwise(text[: t + 1])]
    assert len(at) == int(sums["n_repeats"]) > 3
    expected = {name: np.zeros((2, 2)) for name in ("moved", "on_match", "hits", "raised")}
    for layer, head in np.ndindex(2, 2):
        W_OV = np.asarray(heads.W_V[layer, head]) @ np.asarray(heads.W_O[layer, head])
        written = streams[layer] / scales[layer][:, None] @ W_OV
        for t in at:
            row = A[layer, head, t]
            moved = row * np.linalg.norm(written, axis=1)
            match = [
                s for s in range(1, t + 1) if text[s - 1] == text[t] and text[s] == text[t + 1]
            ]
            expected["moved"][layer, head] += moved.sum()
            expected["on_match"][layer, head] += moved[match].sum()
            expected["hits"][layer, head] += row.argmax() in match
            expected["raised"][layer, head] += row @ written @ directions[text[t + 1]] / final[t]
    for name, value in expected.items():
        np.testing.assert_allclose(sums[name], value, atol=1e-10, err_msg=name)
    twice = shares_at_repeats(jax.tree.map(lambda x: 2 * x, sums))  # two texts alike
    np.testing.assert_allclose(twice["stripes"], expected["on_match"] / expected["moved"])
    np.testing.assert_allclose(twice["top_is_match"], expected["hits"] / len(at))
    np.testing.assert_allclose(twice["raises"], expected["raised"] / len(at), atol=1e-12)


def test_without_repeats_all_shares_are_0(make_run):
    run = make_run(1, dtype=jnp.float32)
    shares = shares_at_repeats(sums_at_repeats(run, jnp.zeros(4, bool)))
    assert not any(np.asarray(share).any() for share in shares.values())


SPEC = TransformerSpec(d_vocab=12, n_ctx=14, n_layers=2, n_heads=2, d_model=8)
TEXTS = RepeatedSource(6, 14, 12, min_period=3, max_period=6, distinct=True)(jax.random.key(1))


@pytest.mark.parametrize("options", [{}, {"causal": False}, {"window": 5}])
def test_against_sums_over_every_pair_of_positions(options) -> None:
    model = init(jax.random.key(0), SPEC).with_options(**options)
    scores = induction_scores(model, TEXTS)
    prefix, previous, n_prefix, uniform = np.zeros((2, 2)), np.zeros((2, 2)), 0, 0.0
    losses = np.zeros(13)
    for text in np.asarray(TEXTS):
        logits, trace = forward(model, jnp.asarray(text))
        A = np.asarray(trace.patterns, float)
        for t in range(14):
            read = range(max(0, t - model.spec.window + 1) if model.spec.window else 0, t + 1)
            marked = [s for s in read if s and text[s - 1] == text[t] and s - 1 < t]
            if marked:
                prefix += A[:, :, t, marked].sum(-1)
                uniform += len(marked) / (len(read) if model.spec.causal else 14)
                n_prefix += 1
            if t:
                previous += A[:, :, t, t - 1] / 13 / 6
        log_p = np.asarray(jax.nn.log_softmax(logits), float)
        losses -= log_p[np.arange(13), text[1:]] / 6
    np.testing.assert_allclose(scores.prefix, prefix / n_prefix, rtol=1e-5)
    np.testing.assert_allclose(scores.previous, previous, rtol=1e-5)
    np.testing.assert_allclose(scores.chance, uniform / n_prefix, rtol=1e-5)
    np.testing.assert_allclose(scores.loss_by_position, losses, rtol=1e-5)


def test_without_layers_there_are_no_heads() -> None:
    spec = TransformerSpec(d_vocab=12, n_ctx=14, n_layers=0, n_heads=2, d_model=8)
    model = init(jax.random.key(0), spec)
    scores = induction_scores(model, TEXTS)
    assert scores.prefix.shape == (0, 2)
    # What is left is a table of pairs of tokens; spec.positions adds none to the stream.
    logits = np.asarray(model.W_E @ model.W_U, float)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    expected = -log_p[TEXTS[:, :-1], TEXTS[:, 1:]].mean(axis=0)
    np.testing.assert_allclose(scores.loss_by_position, expected, rtol=1e-5)


SIZES = {"d_vocab": 7, "n_ctx": 5, "n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 6}


@pytest.mark.parametrize(
    "mlp", [{"biases": True}, {"gated": True}, {"biases": True, "mlp_depth": 3}]
)
def test_activations_times_W_out_are_what_the_mlps_wrote(mlp, x64):
    spec = TransformerSpec(**SIZES, norm=Norm.layernorm, **mlp)
    model = init(jax.random.key(1), spec, jnp.float64)
    run = run_model(model, [1, 4, 4, 0, 6], outputs=True)
    active = jax.jit(detectors.neuron_activations)(run)
    mlp = model.blocks.mlp
    wrote = np.asarray(active) @ np.asarray(mlp.W_out)
    if mlp.b_out is not None:
        wrote = wrote + np.asarray(mlp.b_out)[:, None]
    np.testing.assert_allclose(wrote, run.trace.mlp_outputs, atol=1e-12)


def test_values_come_true_as_a_loop_counts(rng, x64):
    active, coming = rng.normal(size=(2, 30, 3)), rng.integers(0, 5, 30)
    values = rng.random((2, 3, 5)) < 0.4
    found = jax.jit(detectors.values_come_true, static_argnums=3)(active, coming, values, 4)
    for layer in range(2):
        for unit in range(3):
            hits = values[layer, unit, coming]
            firing = np.argsort(-active[layer, :, unit])[:4]
            np.testing.assert_allclose(found.fired[layer, unit], hits[firing].mean())
            np.testing.assert_allclose(found.everywhere[layer, unit], hits.mean())


def test_mean_by_token(rng, x64):
    active, present = rng.normal(size=(2, 20, 3)), rng.integers(0, 4, 20)
    found = detectors.mean_by_token(jnp.asarray(active), jnp.asarray(present), 5)
    for token in range(4):
        expected = active[:, present == token].mean(axis=1)
        np.testing.assert_allclose(found[..., token], expected, atol=1e-12)
    np.testing.assert_array_equal(found[..., 4], 0)
