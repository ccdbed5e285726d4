"""Adversarial training of toy models, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.models.toy import ToyKind, ToySpec
from experiments.superposition.toy_adversarial.problem import AdversarialToy, AttackedHyper


def test_the_loss_is_that_of_attacked_inputs_and_clean_targets() -> None:
    with jax.enable_x64(True):
        problem = AdversarialToy(ToySpec(5, 2), batch_size=7)
        hyper = AttackedHyper(jnp.full(5, 0.6), 0.9 ** jnp.arange(5.0), jnp.asarray(0.4))
        params = problem.init(jax.random.key(0), hyper)
        batch = problem.batch(jax.random.key(1), jnp.asarray(3))
        found = jax.jit(problem.loss)(params, batch, hyper)
        W, b = np.asarray(params.W), np.asarray(params.b)
        u, sign = np.asarray(batch.features), np.asarray(batch.sign)
    assert set(sign) == {-1.0, 1.0}
    x = np.where(u < 0.6, u / 0.6, 0).T
    gram = W.T @ W
    rows = gram[np.asarray(batch.target)]
    attack = 0.4 * sign[:, None] * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    output = np.maximum(0, (x + attack) @ gram + b)
    wanted = ((output - x) ** 2 @ 0.9 ** np.arange(5)).mean()
    assert float(found) == pytest.approx(wanted, rel=1e-12)


def test_the_direction_of_the_attack_is_not_differentiated() -> None:
    with jax.enable_x64(True):
        problem = AdversarialToy(ToySpec(3, 2), batch_size=4)
        hyper = AttackedHyper(jnp.full(3, 0.5), jnp.ones(3), jnp.asarray(0.3))
        params = problem.init(jax.random.key(0), hyper)
        batch = problem.batch(jax.random.key(1), jnp.asarray(0))
        grads = jax.grad(problem.loss)(params, batch, hyper)
        gram = np.asarray(params.W).T @ np.asarray(params.W)
        rows = gram[np.asarray(batch.target)]
        x = np.where(np.asarray(batch.features) < 0.5, 2 * np.asarray(batch.features), 0).T
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        moved = x + 0.3 * np.asarray(batch.sign)[:, None] * unit

        def fixed(W: jax.Array) -> jax.Array:
            output = jax.nn.relu(moved @ W.T @ W + params.b[None])
            return jnp.mean(jnp.sum((output - x) ** 2, axis=1))

        wanted = jax.grad(fixed)(params.W)
    np.testing.assert_allclose(grads.W, wanted, rtol=1e-9, atol=1e-12)


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match=r"model.kind=privileged must be tied"):
        AdversarialToy(ToySpec(3, 2, ToyKind.privileged))
    with pytest.raises(ValueError, match=r"batch_size=0"):
        AdversarialToy(ToySpec(3, 2), batch_size=0)
