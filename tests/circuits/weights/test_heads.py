"""Circuits of heads against dense NumPy products and against the forward pass's own patterns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import score_terms
from circuitax.circuits.weights import heads
from circuitax.kernel.attention import causal_mask, masked_softmax
from circuitax.kernel.chain import materialise
from circuitax.kernel.norm import Norm
from circuitax.kernel.positions import Positions


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


def test_bad_arguments_are_named(make_run):
    run = make_run(1, dtype=jnp.float32)
    with pytest.raises(ValueError, match=r"spec\.positions=none has no position vectors"):
        heads.position_blocks(run.model, 5)
    run = make_run(1, dtype=jnp.float32, norm=Norm.rmsnorm, positions=Positions.learned)
    with pytest.raises(ValueError, match=r"spec\.norm=rmsnorm must be none"):
        heads.position_blocks(run.model, 5)
    run = make_run(1, dtype=jnp.float32, positions=Positions.shortformer)
    smeared = run.model.blocks.attention._replace(smear=jnp.zeros((1, 2)))
    model = run.model.replace(blocks=run.model.blocks._replace(attention=smeared))
    with pytest.raises(ValueError, match=r"blocks\.attention\.smear must be None"):
        heads.token_qk(model)
    with pytest.raises(ValueError, match=r"blocks\.attention\.smear must be None"):
        heads.position_blocks(model, 5)
    with pytest.raises(ValueError, match="n_ctx=99 must be at most the 5 rows of W_pos"):
        heads.position_blocks(run.model, 99)
    with pytest.raises(ValueError, match="n_ctx=0 must be at least 1"):
        heads.position_blocks(run.model, 0)
    ensemble = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), run.model)
    for reading in (heads.token_qk, heads.token_ov, lambda model: heads.position_blocks(model, 5)):
        with pytest.raises(ValueError, match="leading axis of members"):
            reading(ensemble)
