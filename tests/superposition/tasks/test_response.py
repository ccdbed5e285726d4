"""S0 Example 26 beyond magnitude one and beyond one feature, against NumPy by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.toy import pentagon_weights
from circuitax.kernel.weights import DenseLayer, DenseWeights
from circuitax.superposition.hidden_layers import feature_response, onsets, pair_table


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


def test_response_under_jit_grad_and_single_precision() -> None:
    weights = pentagon_weights()
    magnitudes = jnp.array([0.5, 1.0], jnp.float32)
    once = jax.jit(feature_response)(weights, magnitudes)
    np.testing.assert_allclose(once, feature_response(weights, magnitudes), atol=1e-6)
    slope = jax.grad(lambda a: feature_response(weights, a)[0, 0, 0])(magnitudes)
    np.testing.assert_allclose(slope, [1.5, 0.0], atol=1e-6)


def test_a_network_without_onsets_has_none(x64: None) -> None:
    identity = DenseLayer(jnp.eye(2), jnp.zeros(2))
    found = onsets(DenseWeights((identity, identity)))
    assert np.isinf(np.asarray(found.clips)).all() and np.isinf(np.asarray(found.invents)).all()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="limit=0"):
        onsets(pentagon_weights(), limit=0.0)
    one = DenseWeights(pentagon_weights().layers[:1])
    with pytest.raises(ValueError, match="hidden layer"):
        onsets(one)
