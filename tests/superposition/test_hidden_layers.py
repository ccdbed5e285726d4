"""Gains of a hidden layer, and responses to features and pairs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.toy import pentagon_weights
from circuitax.superposition.hidden_layers import (
    asymmetric_motif,
    feature_response,
    gains,
    onsets,
    pair_table,
    serving,
)

# Neuron 0 reads feature 0 with 2 and feature 1 with -1/2, and writes 1/2 and 2, as published.
# Neuron 1 reads feature 0 and takes its effect on output 1 back. Neuron 2 serves feature 1 alone.
W_IN = np.array([[2.0, 1.0, 0.0], [-0.5, 0.0, 1.0]])
W_OUT = np.array([[0.5, 2.0], [0.0, -4.0], [0.0, 1.0]])


def test_gains_are_slopes_of_the_layer_by_differences() -> None:
    rng = np.random.default_rng(0)
    W_in, W_out = rng.normal(size=(3, 4)), rng.normal(size=(4, 3))
    with jax.enable_x64(True):
        found = np.asarray(jax.jit(gains)(jnp.asarray(W_in), jnp.asarray(W_out)))
    for i in range(3):
        for s, sign in enumerate((1, -1)):
            x = np.zeros(3)
            x[i] = 0.7 * sign
            hidden = np.maximum(0, x @ W_in)
            np.testing.assert_allclose(
                found[s, :, i], hidden[:, None] * W_out / 0.7, rtol=1e-12, atol=1e-15
            )


def test_the_published_motif_is_found_with_its_ratios() -> None:
    with jax.enable_x64(True):
        motif = jax.jit(asymmetric_motif)(jnp.asarray(W_IN), jnp.asarray(W_OUT))
    assert np.argwhere(np.asarray(motif.found)).tolist() == [[0, 0, 1]]
    assert float(motif.in_ratio[0, 0, 1]) == pytest.approx(4, rel=1e-12)
    assert float(motif.out_ratio[0, 0, 1]) == pytest.approx(4, rel=1e-12)
    assert float(motif.inhibition[0, 0, 1]) == pytest.approx(1, rel=1e-12)


def numpy_pentagon(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S0's column form, written from the printed formulas."""
    k = np.arange(1, 6)
    W1 = np.stack([np.cos(2 * np.pi * k / 5), np.sin(2 * np.pi * k / 5)])
    b1 = np.array([0.82, 0.97])
    W2 = 1.5 * W1.T
    b2 = -W2 @ b1 - 0.5
    hidden = W1 @ x + b1
    return np.maximum(W2 @ np.maximum(hidden, 0) + b2, 0), hidden


def test_E6_response_curve_matches_numpy_and_is_exact_only_at_one(x64: None) -> None:
    magnitudes = jnp.array([0.0, 0.2, 1 / 3, 0.5, 1.0, 1.04, 1.5, 3.0])
    ours = feature_response(pentagon_weights(), magnitudes)
    for k in range(5):
        for i, a in enumerate(np.asarray(magnitudes)):
            expected = numpy_pentagon(a * np.eye(5)[k])[0]
            np.testing.assert_allclose(ours[k, i], expected, atol=1e-12)
    np.testing.assert_allclose(ours[:, 4], np.eye(5), atol=1e-12)  # as printed, at a = 1
    np.testing.assert_allclose(ours[:, 1], 0, atol=1e-12)  # a = 0.2 is erased
    np.testing.assert_allclose(np.diagonal(ours[:, 3]), 0.25, atol=1e-12)  # a = 0.5 gives 0.25


def test_E6_onsets(x64: None) -> None:
    found = onsets(pentagon_weights())
    np.testing.assert_allclose(found.alive, 1 / 3, atol=1e-12)
    v = np.array([[np.cos(t), np.sin(t)] for t in 2 * np.pi * np.arange(1, 6) / 5])
    # A unit clips where a v + b1 = 0: a = b1 / -v for negative entries.
    with np.errstate(divide="ignore"):
        by_hand = np.where(v < -1e-9, np.array([0.82, 0.97]) / -v, np.inf).min(axis=1)
    np.testing.assert_allclose(found.clips, np.where(by_hand < 3, by_hand, np.inf), rtol=1e-12)
    np.testing.assert_allclose(found.clips[1:4], [1.0136, 1.0136, 1.0199], atol=5e-5)
    unclipped = 0.5 / (1.5 * np.cos(2 * np.pi / 5))
    np.testing.assert_allclose(np.asarray(found.invents)[[0, 3, 4]], unclipped, atol=5e-3)
    np.testing.assert_allclose(np.asarray(found.invents)[[1, 2]], 1.05, atol=5e-3)
    for k in range(5):  # just below nothing is invented, just above something is
        for step, expected in [(-1e-9, False), (1e-9, True)]:
            out, _ = numpy_pentagon((float(found.invents[k]) + step) * np.eye(5)[k])
            assert (np.delete(out, k) > 0).any() == expected


def test_E7_all_ten_pairs(x64: None) -> None:
    table = pair_table(pentagon_weights())
    seen = {}
    for i, j, output, pre_activation, clipped in zip(*map(np.asarray, table), strict=True):
        expected, hidden = numpy_pentagon(np.eye(5)[i] + np.eye(5)[j])
        np.testing.assert_allclose(output, expected, atol=1e-12)
        np.testing.assert_array_equal(clipped, hidden < 0)
        np.testing.assert_allclose(np.maximum(pre_activation, 0), expected, atol=1e-12)
        seen[i + 1, j + 1] = output
    for i, j in [(1, 2), (1, 5), (4, 5)]:  # amplified
        np.testing.assert_allclose(seen[i, j][[i - 1, j - 1]], 1.464, atol=5e-4)
    np.testing.assert_allclose(seen[2, 3][[1, 2]], 0.495, atol=5e-4)  # clipped
    np.testing.assert_allclose(seen[3, 4][[2, 3]], [0.962, 0.652], atol=5e-4)
    for i, j, between in [(1, 3, 2), (2, 4, 3), (3, 5, 4), (1, 4, 5), (2, 5, 1)]:
        assert seen[i, j][i - 1] == seen[i, j][j - 1] == 0, "both are erased, as S0 says"
        np.testing.assert_allclose(seen[i, j][between - 1], 0.427, atol=5e-4)


def test_rescaling_a_neuron_changes_nothing() -> None:
    scale = np.array([3.0, 0.2, 7.0])
    with jax.enable_x64(True):
        W_in, W_out = jnp.asarray(W_IN * scale), jnp.asarray(W_OUT / scale[:, None])
        motif = asymmetric_motif(W_in, W_out)
        np.testing.assert_allclose(serving(W_in, W_out), [[1, 1], [0, 0], [0, 1]], atol=1e-12)
    assert int(motif.found.sum()) == 1
