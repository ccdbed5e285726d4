"""QK circuits by offset against dense scores of rotated queries and keys, head by head."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.score_terms import head_scores
from circuitax.circuits.weights import heads as rotary
from circuitax.kernel.run import run
from circuitax.models.pretrained import load_pretrained

HERE = Path(__file__).parents[2] / "fixtures" / "families"
NAMES = ["gpt_neox", "llama", "llama_biased", "qwen2"]


@pytest.mark.parametrize("name", NAMES)
def test_offsets_give_the_scores_of_a_text(name: str, x64: None) -> None:
    model = load_pretrained(HERE / name, dtype=jnp.float64)
    seen = run(model, np.load(HERE / name / "reference.npz")["tokens"][0])
    for layer in range(3):
        read = seen.trace.streams[layer] / seen.trace.scales.attention[layer][:, None]
        table = rotary.offset_scores(model, read, read).at(jnp.arange(12))
        for head in range(4):
            scores = np.asarray(head_scores(seen, layer, head))
            for t in range(12):
                for s in range(t + 1):
                    assert table[layer, head, t, s, t - s] == pytest.approx(
                        scores[t, s], rel=1e-9, abs=1e-9
                    )


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


def test_the_best_offset_of_a_head_made_for_one(x64: None) -> None:
    """Queries turned three steps ahead of the keys look three steps back."""
    model = load_pretrained(HERE / "llama", dtype=jnp.float64)
    frequencies = model.spec.rotary_base ** (-np.arange(0, 8, 2) / 8)
    same = np.tile([1.0, 0.0], 4)
    ahead = np.stack([np.cos(3 * frequencies), np.sin(-3 * frequencies)], axis=-1).ravel()
    d = model.d_model
    W_Q = jnp.broadcast_to(jnp.asarray(np.tile(ahead, (d, 1))), model.blocks.attention.W_Q.shape)
    W_K = jnp.broadcast_to(jnp.asarray(np.tile(same, (d, 1))), model.blocks.attention.W_K.shape)
    heads = model.blocks.attention._replace(W_Q=W_Q, W_K=W_K)
    gains = model.blocks.attention_norm._replace(gain=jnp.ones((3, d)))
    made = model.replace(blocks=model.blocks._replace(attention=heads, attention_norm=gains))
    ones = jnp.ones((2, d))
    table = rotary.offset_scores(made, ones, ones).at(jnp.arange(10))
    assert (rotary.best_offset(table) == 3).all()


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


def test_what_has_no_offsets_is_refused(x64: None) -> None:
    learned = load_pretrained(HERE / "gpt2", dtype=jnp.float64)
    with pytest.raises(ValueError, match=r"spec\.positions=learned must be rotary"):
        rotary.qk_at_offset(learned, 1)
    normed = load_pretrained(HERE / "qwen3", dtype=jnp.float64)
    with pytest.raises(ValueError, match="qk_norm must be False"):
        rotary.offset_scores(normed, normed.W_E[:2], normed.W_E[:2])
