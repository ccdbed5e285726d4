"""Shares of weights in a difference of losses: closing, and a bigram model in NumPy."""

from itertools import pairwise
from typing import Any

import jax
import numpy as np
import pytest

import circuitax as cx
from circuitax.circuits.weight_shares import weight_shares

SIZES: dict[str, Any] = {"d_vocab": 7, "n_layers": 2, "n_heads": 2, "d_model": 8, "init_scale": 3.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "attention": {"positions": "shortformer", "n_ctx": 5},
    "gated": {"d_mlp": 5, "gated": True, "activation": "silu", "norm": "rmsnorm"}
    | {"positions": "rotary", "n_kv_heads": 1},
    "biases": {"d_mlp": 5, "activation": "gelu", "norm": "layernorm", "biases": True}
    | {"positions": "learned", "n_ctx": 5, "qk_norm": True},
}
TEXTS = [[1, 2, 3, 1, 2], [4, 5, 6, 0, 4]]


def two_models(options):
    """Two models far apart, gains and biases included."""
    spec = cx.TransformerSpec(**SIZES).replace(**options)
    first, second = (cx.init(jax.random.key(i), spec, float) for i in (0, 1))
    return first, jax.tree.map(
        lambda x: x + 0.3 * np.cos(np.arange(x.size)).reshape(x.shape), second
    )


def total(shares):
    return sum(np.asarray(leaf).sum() for leaf in jax.tree.leaves(shares))


@pytest.mark.parametrize("name", OPTIONS)
def test_shares_sum_to_the_difference_of_losses(x64, name):
    first, second = two_models(OPTIONS[name])
    shares = weight_shares(first, second, TEXTS)
    delta = cx.run(first, TEXTS).loss - cx.run(second, TEXTS).loss
    np.testing.assert_allclose(total(shares), delta, rtol=1e-10)
    assert abs(delta) > 0.01
    # Exchanged, every sign changes; near each other it is the gradient.
    turned = weight_shares(second, first, TEXTS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, -b, atol=1e-12), shares, turned)
    near = jax.tree.map(lambda a, b: a + 1e-8 * (b - a), first, second)
    slope = jax.grad(lambda model: cx.run(model, TEXTS).loss)(first)
    expected = jax.tree.map(lambda a, b, g: (a - b) * g, first, near, slope)
    found = weight_shares(first, near, TEXTS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-13), found, expected)


def test_shares_of_a_bigram_model_are_those_of_numpy(x64):
    first, second = two_models({"n_layers": 0})
    shares = weight_shares(first, second, TEXTS)
    E, U = (np.stack([getattr(m, name) for m in (first, second)]) for name in ("W_E", "W_U"))
    by_E, by_U = np.zeros_like(E[0]), np.zeros_like(U[0])
    pairs = [pair for text in TEXTS for pair in pairwise(text)]
    for token, right in pairs:
        z = np.einsum("md,mdv->mv", E[:, token], U)
        log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        mean = (np.exp(log_p[0]) - np.exp(log_p[1])) / (log_p[0] - log_p[1])
        slope = mean / mean.sum() - np.eye(7)[right]
        by_E[token] += (E[0, token] - E[1, token]) * (U.mean(axis=0) @ slope) / len(pairs)
        by_U += (U[0] - U[1]) * np.outer(E[:, token].mean(axis=0), slope) / len(pairs)
    np.testing.assert_allclose(shares.W_E, by_E, atol=1e-12)
    np.testing.assert_allclose(shares.W_U, by_U, atol=1e-12)
    halves = jax.tree.map(lambda x: x.astype("float16"), (first, second))
    singles = jax.tree.map(lambda x: x.astype("float32"), halves)
    found, want = (weight_shares(*pair, TEXTS) for pair in (halves, singles))
    np.testing.assert_array_equal(found.W_E, want.W_E)


def test_what_has_no_shares_is_refused():
    first, second = two_models({"smeared_keys": True})
    with pytest.raises(ValueError, match="smeared_keys=True"):
        weight_shares(first, second, TEXTS)
    with pytest.raises(ValueError, match="another spec"):
        weight_shares(two_models({})[0], second, TEXTS)
