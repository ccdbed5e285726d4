"""Computation of absolute values: gains and the asymmetric motif, on networks set by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.superposition.hidden_layers import asymmetric_motif, gains, serving

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


def test_rescaling_a_neuron_changes_nothing() -> None:
    scale = np.array([3.0, 0.2, 7.0])
    with jax.enable_x64(True):
        W_in, W_out = jnp.asarray(W_IN * scale), jnp.asarray(W_OUT / scale[:, None])
        motif = asymmetric_motif(W_in, W_out)
        np.testing.assert_allclose(serving(W_in, W_out), [[1, 1], [0, 0], [0, 1]], atol=1e-12)
    assert int(motif.found.sum()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"W_in": (1, 0, 0.5)},  # equal signs
        {"W_in": (1, 0, -1.8)},  # read nearly equally
        {"W_out": (1, 1, -1.0)},  # a quarter of the damage taken back
        {"W_out": (0, 0, 0.1)},  # one of the two hardly served
    ],
)
def test_without_one_of_its_parts_the_motif_is_not_found(change: dict) -> None:
    W_in, W_out = W_IN.copy(), W_OUT.copy()
    for name, (row, column, value) in change.items():
        {"W_in": W_in, "W_out": W_out}[name][row, column] = value
    assert not asymmetric_motif(jnp.asarray(W_in), jnp.asarray(W_out)).found.any()


def test_thresholds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"least_ratio=0.5"):
        asymmetric_motif(jnp.asarray(W_IN), jnp.asarray(W_OUT), least_ratio=0.5)
