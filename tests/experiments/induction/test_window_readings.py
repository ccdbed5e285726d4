"""Readings of windows against the runs that they are means of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits.patching import ablation_effects
from circuitax.circuits.term_losses import term_losses
from circuitax.circuits.weights.heads import position_blocks, positional_share
from circuitax.kernel.forward import next_token_losses
from circuitax.kernel.positions import Positions
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init
from experiments.induction.shared.window_readings import order_losses, window_readings


def test_means_over_windows(rng, x64):
    spec = TransformerSpec(
        n_layers=2, n_heads=2, d_model=6, d_vocab=7, n_ctx=8, positions=Positions.shortformer
    )
    model = init(jax.random.key(4), spec, jnp.float64)
    windows = jnp.asarray(rng.integers(0, 7, (3, 8)))
    found = jax.jit(window_readings, static_argnames="offsets")(model, windows, offsets=3)
    runs = [run_model(model, window) for window in windows]
    terms = [term_losses(run) for run in runs]
    for name in ("order", "first_order"):
        expected = np.mean([getattr(term, name).mean(axis=1) for term in terms], axis=0)
        np.testing.assert_allclose(found[f"{name}_loss"], expected, atol=1e-12)
    np.testing.assert_allclose(order_losses(model, windows), found["order_loss"], atol=1e-12)
    loss = np.mean([next_token_losses(run.logits, run.tokens).mean() for run in runs])
    np.testing.assert_allclose(found["loss"], loss, atol=1e-12)
    for name, preserve in (("ablated", False), ("ablated_preserving", True)):
        effects = [ablation_effects(run, preserve_patterns=preserve).heads for run in runs]
        np.testing.assert_allclose(found[name], loss + np.mean(effects, axis=0), atol=1e-12)
    A = np.mean([run.trace.patterns for run in runs], axis=0)
    for k in range(3):
        at_distance = np.mean([A[:, :, t, t - k] for t in range(4, 8)], axis=0)
        np.testing.assert_allclose(found["attention"][..., k], at_distance, atol=1e-12)
    shares = positional_share(position_blocks(model, 8))
    np.testing.assert_allclose(found["positional"], shares[0], rtol=1e-12)
    assert np.abs(shares[0] - shares[1]).min() > 1e-3
    with pytest.raises(ValueError, match="offsets=5 must be from 1 to half of n_ctx=8"):
        window_readings(model, windows, 5)
