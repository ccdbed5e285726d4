"""QK and OV circuits against the scores of a text."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms
from circuitax.circuits.weights import heads
from circuitax.circuits.weights import heads as rotary
from circuitax.kernel.attention import causal_mask, masked_softmax
from circuitax.kernel.chain import materialise
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions
from circuitax.models.pretrained import load_pretrained


def _pattern(table, run):
    """Layer-0 patterns from a token table, through mask and softmax."""
    text = run.tokens
    index = jnp.arange(text.shape[0])
    return masked_softmax(table[..., text[:, None], text[None, :]], causal_mask(index, index))


def test_S0_def_23_full_circuits_E1_E2_E3(make_run, x64):
    """The sources' column matrices, computed as printed and corrected, against our chains."""
    run = make_run(1)
    attention = run.model.blocks.attention
    E, U = np.asarray(run.model.W_E).T, np.asarray(run.model.W_U).T
    W_Q, W_K, W_V, W_O = (
        np.asarray(W[0, 1]).T for W in (attention.W_Q, attention.W_K, attention.W_V, attention.W_O)
    )
    qk = materialise(heads.token_qk(run.model, centred=False))[0, 1]
    np.testing.assert_allclose(qk, E.T @ W_Q.T @ W_K @ E * run.model.spec.scale, atol=1e-12)
    with pytest.raises(ValueError):  # E1, as printed
        E.T @ W_Q @ W_K @ E
    ov = materialise(heads.token_ov(run.model, centred=False))[0, 1]
    column = U @ W_O @ W_V @ E
    np.testing.assert_allclose(ov, column.T, atol=1e-12)
    # E2: attending to u raises v by entry (v, u) of the column matrix, not by (u, v)
    u, v = 2, 5
    raise_of_v = (U @ W_O @ W_V @ E @ np.eye(7)[u])[v]
    np.testing.assert_allclose([column[v, u], ov[u, v]], raise_of_v, atol=1e-12)
    assert abs(column[u, v] - raise_of_v) > 1e-2
    # E3: the head-level matrices are d × d and not V × V
    over_features = materialise(heads.head_qk(attention, run.model.spec.scale))[0, 1]
    np.testing.assert_allclose(over_features, W_Q.T @ W_K * run.model.spec.scale, atol=1e-12)
    head_ov = materialise(heads.head_ov(attention))[0, 1]
    np.testing.assert_allclose(head_ov, (W_O @ W_V).T, atol=1e-12)
    assert head_ov.shape == (6, 6) and ov.shape == (7, 7)


def test_S0_rmk_24_attending_to_a_token_writes_its_row(make_run, x64):
    """With A_ij = 1 the head's logits are row x_j of the OV circuit, exactly."""
    run = make_run(1)
    ov = materialise(heads.token_ov(run.model, centred=False))[0, 0]
    attention = run.model.blocks.attention
    one_hot = np.eye(5)[[0, 0, 2, 1, 3]]
    written = one_hot @ np.asarray(run.trace.streams[0]) @ attention.W_V[0, 0] @ attention.W_O[0, 0]
    sources = np.asarray(run.tokens)[[0, 0, 2, 1, 3]]
    np.testing.assert_allclose(written @ run.model.W_U, ov[sources], atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [{}, {"norm": Norm.layernorm, "biases": True}, {"norm": Norm.rmsnorm}],
    ids=["bare", "layernorm_biases", "rmsnorm"],
)
@pytest.mark.parametrize("centred", [False, True])
def test_layer_0_patterns_come_from_the_qk_table(options, centred, make_run, x64):
    """Scale, norm, biases folded: softmax of table entries is the model's own pattern."""
    run = make_run(1, **options)
    table = materialise(heads.token_qk(run.model, centred=centred))
    np.testing.assert_allclose(_pattern(table, run), run.trace.patterns, atol=1e-12)
    if centred:
        np.testing.assert_allclose(table.mean(-1), 0, atol=1e-12)


def test_E13_without_the_score_scale_the_pattern_is_another(make_run, x64):
    run = make_run(1)
    table = materialise(heads.token_qk(run.model))
    unscaled = _pattern(table / run.model.spec.scale, run)
    assert np.abs(unscaled - run.trace.patterns).max() > 1e-2


def test_rotary_tables_depend_on_the_offset(make_run, x64):
    run = make_run(1, positions=Positions.rotary, d_head=4, biases=True)
    scores = np.stack(
        [materialise(heads.token_qk(run.model, offset=o, centred=False)) for o in range(5)]
    )
    text = np.asarray(run.tokens)
    for head in range(2):
        table = np.array(
            [[scores[max(t - s, 0), 0, head, text[t], text[s]] for s in range(5)] for t in range(5)]
        )
        index = jnp.arange(5)
        pattern = masked_softmax(jnp.asarray(table), causal_mask(index, index))
        np.testing.assert_allclose(pattern, run.trace.patterns[0, head], atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"positions": Positions.learned},
        {"positions": Positions.sinusoidal},
        {"positions": Positions.shortformer},
        {"positions": Positions.learned, "biases": True},
        {"positions": Positions.shortformer, "biases": True, "norm": Norm.layernorm},
        {"positions": Positions.shortformer_sinusoidal, "norm": Norm.layernorm},
    ],
    ids=lambda options: "_".join(str(value) for value in options.values()),
)
def test_position_blocks_sum_to_the_scores(options, make_run, x64):
    run = make_run(1, **options)
    blocks = heads.position_blocks(run.model, 5)
    tt, tp, pt, pp = (materialise(block) for block in blocks)
    text = run.tokens
    scores = tt[..., text[:, None], text[None, :]] + tp[..., text, :] + pt[..., text] + pp
    index = jnp.arange(5)
    pattern = masked_softmax(scores, causal_mask(index, index))
    np.testing.assert_allclose(pattern, run.trace.patterns, atol=1e-12)
    undivided = [score_terms.head_scores(run, 0, head) for head in range(2)]
    np.testing.assert_allclose(scores[0], undivided, atol=1e-12)  # a softmax sees no key bias


def test_positional_share_is_a_share_of_variance(make_run, x64):
    run = make_run(1, positions=Positions.shortformer)
    blocks = heads.position_blocks(run.model, 5)
    pp, tt = (np.asarray(materialise(b)) for b in (blocks.position_position, blocks.token_token))
    by_position, by_token = pp.var(-1).mean(-1), tt.var(-1).mean(-1)
    share = heads.positional_share(blocks)
    np.testing.assert_allclose(share, by_position / (by_position + by_token), atol=1e-12)
    silent = run.model.replace(W_pos=0 * run.model.W_pos)
    np.testing.assert_allclose(
        heads.positional_share(heads.position_blocks(silent, 5)), 0, atol=1e-12
    )


def test_unembedding_is_centred_over_the_vocabulary(make_run, x64):
    run = make_run(1, norm=Norm.layernorm)
    W_U = heads.unembedding(run.model)
    np.testing.assert_allclose(W_U.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(W_U.sum(0), 0, atol=1e-12)  # the folded centring of the norm


HERE = Path(__file__).parents[2] / "fixtures" / "families"


def test_a_circuit_is_its_own_rotation(x64: None, rng: np.random.Generator) -> None:
    """Grouped heads and a partly rotated width, with rotations written out in NumPy."""
    for name in ("gpt_neox", "llama"):
        model = load_pretrained(HERE / name, dtype=jnp.float64)
        spec, heads, gain = model.spec, model.blocks.attention, model.blocks.attention_norm.gain
        for offset in (0, 1, 7):
            found = rotary.qk_at_offset(model, offset)
            turned = np.eye(spec.head_width)
            for i in range(spec.rotary_width // 2):
                angle = offset * spec.rotary_base ** (-2 * i / spec.rotary_width)
                pair = slice(2 * i, 2 * i + 2)
                turned[pair, pair] = [
                    [np.cos(angle), np.sin(angle)],
                    [-np.sin(angle), np.cos(angle)],
                ]
            for layer in range(3):
                for head in range(4):
                    group = head // (4 // heads.W_K.shape[1])
                    W_Q = np.asarray(gain[layer])[:, None] * np.asarray(heads.W_Q[layer, head])
                    W_K = np.asarray(gain[layer])[:, None] * np.asarray(heads.W_K[layer, group])
                    if spec.norm.centres:
                        W_Q, W_K = W_Q - W_Q.mean(axis=0), W_K - W_K.mean(axis=0)
                    expected = W_Q @ turned @ W_K.T * spec.head_width**-0.5
                    np.testing.assert_allclose(found[layer, head], expected, atol=1e-12)


def test_rotary_heads_have_one_freedom_for_each_pair(x64: None, rng: np.random.Generator) -> None:
    """Turning and scaling pairs changes no offset's circuit; a general map changes all but one."""
    model = load_pretrained(HERE / "llama", dtype=jnp.float64)
    heads, width = model.blocks.attention, model.spec.head_width
    pairs = np.zeros((width, width))
    for i in range(width // 2):
        a, b = rng.normal(size=2)
        pairs[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[a, b], [-b, a]]

    def turned(R: np.ndarray, offset: int) -> np.ndarray:
        W_Q, W_K = heads.W_Q @ R, heads.W_K @ np.linalg.inv(R).T
        new = model.replace(
            blocks=model.blocks._replace(attention=heads._replace(W_Q=W_Q, W_K=W_K))
        )
        return np.asarray(rotary.qk_at_offset(new, offset))

    mixing = rng.normal(size=(width, width))
    for offset in (0, 1, 7):
        before = np.asarray(rotary.qk_at_offset(model, offset))
        np.testing.assert_allclose(turned(pairs, offset), before, atol=1e-9)
        same = np.allclose(turned(mixing, offset), before, atol=1e-6)
        assert same == (offset == 0)
