"""One member: the step against NumPy, resuming, divergence; problems side by side."""

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.kernel.keys import derive
from circuitax.models.autoencoder import Autoencoder, Sparsity
from circuitax.training import ensemble
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.dictionary import DictionaryHyper, DictionaryLearning
from circuitax.training.ensemble import Plan, new_members
from circuitax.training.optim import OptimSpec, Schedule
from circuitax.training.problem import (
    Member,
    SideBySide,
    TrainState,
    advance,
    init,
    step,
    train,
)

SPEC = OptimSpec(learning_rate=0.05, schedule=Schedule.cosine, steps=12, warmup_steps=3)


def close(a: Any, b: Any, **tolerance: float) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), a, b)


def new_member(key: jax.Array, rate: float, hyper: Any) -> Member:
    """A member whose initialisation and data both derive from one key."""
    return Member(derive(key, "init"), derive(key, "data"), jnp.asarray(rate, float), hyper)


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


def test_a_diverged_member_stays_so_when_later_batches_are_fine(
    quadratic: Any, scales: Any
) -> None:
    """In an ensemble the others go on, so a frozen member meets new batches."""
    optim = OptimSpec(learning_rate=0.1)
    member = new_member(jax.random.key(0), 0.1, jax.tree.map(lambda leaf: leaf[0], scales))
    once = jax.jit(partial(step, quadratic, optim))
    start = init(quadratic, optim, member)
    fine = quadratic.batch(member.data_key, jnp.zeros((), int))
    moved, _ = once(start, member, fine)
    assert moved.alive and not np.array_equal(moved.params, start.params)
    lost, _ = once(moved, member, fine.at[0, 0].set(jnp.nan))
    later, metrics = once(lost, member, fine)
    assert not lost.alive and not later.alive and jnp.isnan(metrics["loss"])
    np.testing.assert_array_equal(later.params, moved.params)
    assert int(later.step) == 1


KINDS = (Sparsity.relu, Sparsity.jumprelu, Sparsity.matryoshka)
ALONE = tuple(
    DictionaryLearning(Autoencoder(kind, 4, 3), n_true=4, batch_size=16) for kind in KINDS
)
MEMBERS = 2


def hyper(penalty: float) -> DictionaryHyper:
    directions = np.random.default_rng(0).normal(size=(MEMBERS, 4, 3))
    same = jnp.full(MEMBERS, 0.3)
    return DictionaryHyper(jnp.asarray(directions, jnp.float32), same, same, penalty * same)


def trained(problem, numbers) -> tuple[TrainState, dict]:
    members = new_members(jax.random.key(0), 1e-2, numbers)
    plan = Plan(problem, OptimSpec(steps=20), chunk=20)
    return ensemble.advance(plan, members)(ensemble.init(plan, members))


def test_each_is_trained_as_if_it_were_alone() -> None:
    own = tuple(hyper(penalty) for penalty in (0.1, 0.2, 0.3))
    together, metrics = trained(SideBySide(ALONE), own)
    alone = [trained(problem, numbers) for problem, numbers in zip(ALONE, own, strict=True)]
    for params, (state, _) in zip(together.params, alone, strict=True):
        for name, value in state.params.items():
            np.testing.assert_allclose(params[name], value, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(metrics["loss"], sum(m["loss"] for _, m in alone), rtol=1e-5)
    # The parameters moved, and not alike.
    first, last = (np.asarray(together.params[i]["D"]) for i in (0, 2))
    assert np.abs(first - last).max() > 1e-3


def test_one_that_diverges_stops_its_member_and_no_other() -> None:
    own = tuple(hyper(0.1) for _ in KINDS)
    bad = own[1]._replace(strength=jnp.array([jnp.nan, 0.1]))
    state, _ = trained(SideBySide(ALONE), (own[0], bad, own[2]))
    assert state.alive.tolist() == [False, True]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
