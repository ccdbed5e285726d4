"""One member: the step against NumPy, resuming, donation, divergence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import derive
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.optim import Optimizer, OptimSpec, Schedule
from circuitax.training.problem import Problem, advance, chunk, init, new_member, train

SPEC = OptimSpec(learning_rate=0.05, schedule=Schedule.cosine, steps=12, warmup_steps=3)


def close(a: Any, b: Any, **tolerance: float) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), a, b)


def test_steps_are_adamw_on_the_schedule(quadratic: Any, scales: Any, x64: None) -> None:
    hyper = jax.tree.map(lambda leaf: leaf[1], scales)
    member = new_member(jax.random.key(0), 0.05, hyper)
    state, metrics = train(quadratic, SPEC, 5, member)
    p = np.asarray(init(quadratic, SPEC, member).params)
    m = v = np.zeros(3)
    losses, norms = [], []
    for t in range(5):
        noise = np.asarray(quadratic.batch(member.data_key, jnp.array(t)))
        losses.append(np.mean((p - noise) ** 2))
        g = 2 * (p - noise).mean(axis=0) / 3
        norms.append(np.linalg.norm(g))
        share = max(0, (t - 3) / 9)
        rate = 0.05 * min((1 + np.cos(np.pi * share)) / 2, (t + 1) / 3)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        adam = m / (1 - 0.9 ** (t + 1)) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
        p = p - rate * (adam + 0.01 * p)
    np.testing.assert_allclose(state.params, p, rtol=1e-6)  # the scales are float32
    np.testing.assert_allclose(metrics["loss"], np.mean(losses), rtol=1e-6)
    np.testing.assert_allclose(metrics["grad_norm"], np.mean(norms), rtol=1e-6)
    assert int(state.step) == 5 and bool(state.alive)


def test_problem_is_recognised(quadratic: Any) -> None:
    assert isinstance(quadratic, Problem)


def test_init_and_data_have_their_own_keys() -> None:
    member = new_member(jax.random.key(3), 0.1, ())
    key = jax.random.key(3)
    assert member.init_key == derive(key, "init")
    assert member.data_key == derive(key, "data")
    assert member.init_key != member.data_key


def test_resume_equals_an_uninterrupted_run(quadratic: Any, scales: Any, tmp_path: Path) -> None:
    member = new_member(jax.random.key(0), 0.05, jax.tree.map(lambda leaf: leaf[0], scales))
    state = init(quadratic, SPEC, member)
    whole, _ = advance(quadratic, SPEC, 8, state, member)
    half, _ = advance(quadratic, SPEC, 4, init(quadratic, SPEC, member), member)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, half)
        half = checkpoints.restore(1, jax.eval_shape(lambda: init(quadratic, SPEC, member)))
    resumed, _ = advance(quadratic, SPEC, 4, half, member)
    close(resumed, whole, rtol=1e-6)
    # The step count matters: starting the second half's data and schedule anew ends elsewhere.
    half, _ = advance(quadratic, SPEC, 4, init(quadratic, SPEC, member), member)
    anew, _ = advance(quadratic, SPEC, 4, half._replace(step=jnp.zeros((), jnp.int32)), member)
    assert not np.allclose(anew.params, whole.params, rtol=1e-4)


def test_advance_donates_its_state(quadratic: Any, scales: Any) -> None:
    member = new_member(jax.random.key(0), 0.05, jax.tree.map(lambda leaf: leaf[0], scales))
    state = init(quadratic, SPEC, member)
    advance(quadratic, SPEC, 2, state, member)
    assert state.params.is_deleted()


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_a_run_freezes_where_it_diverges(quadratic: Any, scales: Any, bad: float) -> None:
    # Steps 0 to 3 are fine; the batch of step 4 is poisoned.
    class Poisoned(type(quadratic)):
        def batch(self, key: jax.Array, step: jax.Array) -> jax.Array:
            return jnp.where(step == 4, bad, super().batch(key, step))

    member = new_member(jax.random.key(0), 0.05, jax.tree.map(lambda leaf: leaf[0], scales))
    frozen, metrics = train(Poisoned(), SPEC, 7, member)
    before, _ = train(quadratic, SPEC, 4, member)
    assert not frozen.alive and int(frozen.step) == 4
    assert jnp.isnan(metrics["loss"]) and jnp.isnan(metrics["grad_norm"])
    close(frozen._replace(alive=before.alive), before, rtol=1e-6)


def test_a_rate_that_is_too_large_is_seen(quadratic: Any, scales: Any) -> None:
    spec = OptimSpec(Optimizer.sgd, weight_decay=0.0, steps=400)
    member = new_member(jax.random.key(0), 1e6, jax.tree.map(lambda leaf: leaf[0], scales))
    state, _ = train(quadratic, spec, 400, member)
    assert not state.alive and 0 < int(state.step) < 20
    assert jnp.isfinite(state.params).all()


def test_errors_name_the_argument(quadratic: Any, scales: Any) -> None:
    member = new_member(jax.random.key(0), 0.05, jax.tree.map(lambda leaf: leaf[0], scales))
    with pytest.raises(ValueError, match="n_steps=0 must be at least 1"):
        chunk(quadratic, SPEC, 0, init(quadratic, SPEC, member), member)
    assert replace(SPEC, steps=12) == SPEC and hash(replace(SPEC)) == hash(SPEC)
