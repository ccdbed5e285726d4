"""Firing of MLP units, against loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.circuits import neurons
from circuitax.kernel.norm import Norm
from circuitax.kernel.run import run as run_model
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init

SIZES = {"d_vocab": 7, "n_ctx": 5, "n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 6}


@pytest.mark.parametrize(
    "mlp", [{"biases": True}, {"gated": True}, {"biases": True, "mlp_depth": 3}]
)
def test_activations_times_W_out_are_what_the_mlps_wrote(mlp, x64):
    spec = TransformerSpec(**SIZES, norm=Norm.layernorm, **mlp)
    model = init(jax.random.key(1), spec, jnp.float64)
    run = run_model(model, [1, 4, 4, 0, 6], outputs=True)
    active = jax.jit(neurons.neuron_activations)(run)
    mlp = model.blocks.mlp
    wrote = np.asarray(active) @ np.asarray(mlp.W_out)
    if mlp.b_out is not None:
        wrote = wrote + np.asarray(mlp.b_out)[:, None]
    np.testing.assert_allclose(wrote, run.trace.mlp_outputs, atol=1e-12)


def test_values_come_true_as_a_loop_counts(rng, x64):
    active, coming = rng.normal(size=(2, 30, 3)), rng.integers(0, 5, 30)
    values = rng.random((2, 3, 5)) < 0.4
    found = jax.jit(neurons.values_come_true, static_argnums=3)(active, coming, values, 4)
    for layer in range(2):
        for unit in range(3):
            hits = values[layer, unit, coming]
            firing = np.argsort(-active[layer, :, unit])[:4]
            np.testing.assert_allclose(found.fired[layer, unit], hits[firing].mean())
            np.testing.assert_allclose(found.everywhere[layer, unit], hits.mean())


def test_mean_by_token(rng, x64):
    active, present = rng.normal(size=(2, 20, 3)), rng.integers(0, 4, 20)
    found = neurons.mean_by_token(jnp.asarray(active), jnp.asarray(present), 5)
    for token in range(4):
        expected = active[:, present == token].mean(axis=1)
        np.testing.assert_allclose(found[..., token], expected, atol=1e-12)
    np.testing.assert_array_equal(found[..., 4], 0)
