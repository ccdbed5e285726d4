"""Kernels over offsets against loops over positions, and mean contents against means of scores."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.detectors import measured_kernel, score_kernel
from circuitax.circuits.weights.heads import offset_scores
from circuitax.models.pretrained import load_pretrained

LLAMA = Path(__file__).parents[2] / "fixtures" / "families" / "llama"


def test_measured_kernels_are_loops_over_positions(x64: None, rng: np.random.Generator) -> None:
    patterns = np.tril(rng.random((2, 9, 9)))
    patterns /= patterns.sum(axis=-1, keepdims=True)
    for first in (False, True):
        found = measured_kernel(jnp.asarray(patterns), 4, first=first)
        for head in range(2):
            mass = sum(patterns[head, t, 0 if first else 1 :].sum() for t in range(4, 9))
            for back in range(4):
                seen = sum(patterns[head, t, t - back] for t in range(4, 9))
                np.testing.assert_allclose(found[head, back], seen / mass, rtol=1e-12)
    with pytest.raises(ValueError, match="n_offsets=9 must be from 1 to 8"):
        measured_kernel(jnp.asarray(patterns), 9)


def test_a_head_of_scores_by_offset_has_its_kernel(x64: None) -> None:
    """Scores that depend on the offset alone, in a text so long that no offset is cut off."""
    scores = np.array([2.0, 3.0, -1.0])
    rows = np.full((12, 12), -np.inf)
    for t in range(12):
        for back in range(min(3, t + 1)):
            rows[t, t - back] = scores[back]
    patterns = np.exp(rows) / np.exp(rows).sum(axis=-1, keepdims=True)
    found = measured_kernel(jnp.asarray(patterns), 3)
    np.testing.assert_allclose(found, score_kernel(jnp.asarray(scores)), rtol=1e-12)


def test_scores_of_mean_contents_are_mean_scores(x64: None, rng: np.random.Generator) -> None:
    """Rows of each layer's own, against the same rows given to one layer after the other."""
    model = load_pretrained(LLAMA, dtype=jnp.float64)
    rows = jnp.asarray(rng.normal(size=(3, 4, model.d_model)))
    offsets = jnp.arange(5)
    every = offset_scores(model, rows, rows).at(offsets)
    mean = rows.mean(axis=1, keepdims=True)
    found = offset_scores(model, mean, mean).at(offsets)[:, :, 0, 0]
    np.testing.assert_allclose(found, every.mean(axis=(2, 3)), atol=1e-12)
    for layer in range(3):
        alone = offset_scores(model, rows[layer], rows[layer]).at(offsets)[layer]
        np.testing.assert_allclose(every[layer], alone, atol=1e-12)
