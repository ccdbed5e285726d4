"""Edits of one head or of the stream, against what they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.edits import (
    ablate_head,
    patch_activation,
    patch_head,
    patch_pattern,
    patch_stream,
)
from circuitax.kernel.interventions import Interventions, freeze
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import Run
from circuitax.kernel.run import run as run_model
from circuitax.models.pretrained import load_pretrained

SIZES = {"n_heads": 2, "d_model": 6, "d_head": 4, "d_value": 3, "n_ctx": 4}
UNIFORM = jnp.tril(jnp.ones((4, 4))) / jnp.arange(1, 5)[:, None]


@pytest.fixture
def seen(make_transformer, x64: None) -> Run:
    model = make_transformer(**SIZES, bias=True, positions=Positions.learned)
    return run_model(model, [3, 1, 4, 1], outputs=True)


@pytest.fixture
def other(seen: Run) -> Run:
    return run_model(seen.model, [2, 7, 1, 8], outputs=True)


def edited(seen: Run, edit: Interventions) -> Run:
    return run_model(seen.model, seen.tokens, edit, outputs=True)


def test_a_pattern_is_what_that_head_writes_and_later_heads_react(seen: Run) -> None:
    found = edited(seen, patch_pattern(seen, (0, 1), UNIFORM))
    heads = jax.tree.map(np.asarray, seen.model.blocks.attention)
    values = np.asarray(seen.trace.streams[0]) @ heads.W_V[0, 1] + heads.b_V[0, 1]
    wrote = np.asarray(UNIFORM) @ values @ heads.W_O[0, 1]
    np.testing.assert_array_equal(found.trace.patterns[0, 1], UNIFORM)
    np.testing.assert_allclose(found.trace.patterns[0, 0], seen.trace.patterns[0, 0], rtol=1e-12)
    moved = wrote - seen.trace.head_outputs[0, 1]
    np.testing.assert_allclose(found.trace.streams[1] - seen.trace.streams[1], moved, atol=1e-12)
    assert np.abs(found.trace.patterns[1] - seen.trace.patterns[1]).max() > 1e-3
    same = edited(seen, patch_head(seen, (0, 1), jnp.asarray(wrote)))
    np.testing.assert_allclose(found.logits, same.logits, atol=1e-12)


def test_a_pattern_beside_frozen_ones_moves_no_other(seen: Run) -> None:
    edit = patch_pattern(seen, (0, 1), UNIFORM, edit=freeze(seen.trace))
    found = edited(seen, edit)
    want = seen.trace.patterns.at[0, 1].set(UNIFORM)
    np.testing.assert_array_equal(found.trace.patterns, want)


def test_a_head_is_replaced_where_it_is_told(seen: Run, other: Run) -> None:
    new = other.trace.head_outputs[1, 0]
    found = edited(seen, patch_head(seen, (1, 0), new, positions=[2]))
    moved = np.zeros((4, 6))
    moved[2] = new[2] - seen.trace.head_outputs[1, 0, 2]
    np.testing.assert_allclose(found.trace.streams[2] - seen.trace.streams[2], moved, atol=1e-12)
    mean = new.mean(axis=0, keepdims=True)
    found = edited(seen, patch_head(seen, (1, 0), mean))
    np.testing.assert_allclose(found.trace.head_outputs[1, 0], np.repeat(mean, 4, 0), atol=1e-12)


def test_the_stream_is_replaced_where_it_is_told(seen: Run, other: Run) -> None:
    found = edited(seen, patch_stream(seen, 1, other.trace.streams[1], positions=[0, 3]))
    want = (
        seen.trace.streams[1].at[jnp.array([0, 3])].set(other.trace.streams[1][jnp.array([0, 3])])
    )
    np.testing.assert_allclose(found.trace.streams[1], want, atol=1e-12)
    whole = edited(seen, patch_stream(seen, 1, other.trace.streams[1]))
    np.testing.assert_allclose(whole.logits, other.logits, atol=1e-12)


def test_edits_add_up_and_the_last_one_of_a_place_counts(seen: Run, other: Run) -> None:
    new = other.trace.head_outputs
    off = jnp.ones((2, 2, 1)).at[1, 1].set(0)
    edit = patch_pattern(seen, (0, 0), UNIFORM, edit=Interventions(head_keep=off))
    edit = patch_pattern(seen, (1, 0), UNIFORM, edit=edit)
    for head, positions in (((1, 0), [0, 1]), ((0, 1), None), ((1, 0), [1, 2])):
        edit = patch_head(
            seen,
            head,
            new[head] + positions[0] if positions else new[head],
            positions=positions,
            edit=edit,
        )
    edit = patch_stream(seen, 2, other.trace.streams[2], positions=[0], edit=edit)
    edit = patch_stream(seen, 2, other.trace.streams[1], positions=[0], edit=edit)
    found = edited(seen, edit).trace
    np.testing.assert_array_equal(found.patterns[:, 0], [UNIFORM, UNIFORM])
    np.testing.assert_allclose(found.head_outputs[1, 1], 0, atol=1e-12)
    np.testing.assert_allclose(found.head_outputs[0, 1], new[0, 1], atol=1e-12)
    np.testing.assert_allclose(found.head_outputs[1, 0, 0], new[1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(found.head_outputs[1, 0, 1:3], new[1, 0, 1:3] + 1, atol=1e-12)
    np.testing.assert_allclose(found.streams[2, 0], other.trace.streams[1, 0], atol=1e-12)


def test_a_divisor_behind_attention_is_held_or_reacts(x64: None) -> None:
    """Both ways to ablate a head where what attention writes has a norm, in NumPy."""
    model = load_pretrained("tests/fixtures/families/gemma3_text", dtype="float64")
    seen = run_model(model, [3, 1, 4, 1], outputs=True)
    heads, gain = seen.head_outputs[1], np.asarray(model.blocks.attention_post_norm.gain[1])
    rest = np.asarray(heads[0] + heads[2] + heads[3])
    held = edited(seen, ablate_head(seen, (1, 1)))
    np.testing.assert_allclose(held.mid[1] - seen.streams[1], rest, atol=1e-12)
    reacts = edited(seen, patch_activation(seen, "z", (1, 1), jnp.zeros_like(seen.z[1, 1])))
    size = np.sqrt(np.mean((rest / gain) ** 2, axis=-1, keepdims=True))
    epsilon = model.spec.norm_eps / np.asarray(seen.trace.scales.attention_post[1])[:, None] ** 2
    want = rest / np.sqrt(size**2 + epsilon)
    np.testing.assert_allclose(reacts.mid[1] - seen.streams[1], want, atol=1e-12)
