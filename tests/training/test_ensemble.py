"""Ensembles: members differ, equal their solo runs, compile once, diverge alone, share devices."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training import problem as loop
from circuitax.training.checkpoints import Checkpoints
from circuitax.training.ensemble import Mapping, Plan, device_mesh, new_members, place
from circuitax.training.language import NextToken
from circuitax.training.optim import OptimSpec
from circuitax.training.problem import Member, TrainState, init

SPEC = OptimSpec(steps=10)
RATES = jnp.array([0.1, 0.1, 0.1, 0.2, 0.2, 0.2])


def run(plan: Plan, members: Member, n_chunks: int = 1) -> tuple[TrainState, dict]:
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    for _ in range(n_chunks):
        state, metrics = advance(state)
    return state, metrics


def close(a: Any, b: Any, rtol: float = 1e-5) -> None:
    assert jax.tree.structure(a) == jax.tree.structure(b)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=rtol, atol=1e-7), a, b)


@pytest.mark.parametrize(
    ("common", "mapping", "impl"),
    [
        (1, Mapping.vmap, None),
        (3, Mapping.auto, None),
        (6, Mapping.loop, "unsafe_rbg"),
        # Under a plain vmap these keys would not be independent.
        (1, Mapping.vmap, "unsafe_rbg"),
    ],
)
def test_member_equals_its_solo_run_and_members_differ(
    quadratic: Any, scales: Any, common: int, mapping: Mapping, impl: str | None
) -> None:
    members = new_members(jax.random.key(0), RATES, scales, common=common, impl=impl)
    plan = Plan(quadratic, SPEC, chunk=5, mapping=mapping, common=common)
    state, metrics = run(plan, members)
    for i in (0, 4):
        member = jax.tree.map(lambda leaf, i=i: leaf[i], members)
        alone, solo = loop.advance(quadratic, SPEC, 5, init(quadratic, SPEC, member), member)
        close(jax.tree.map(lambda leaf, i=i: leaf[i], state), alone)
        close({name: value[i] for name, value in metrics.items()}, solo)
    assert len(np.unique(state.params.round(4), axis=0)) == 6


def test_members_do_not_depend_on_the_size_of_the_ensemble(scales: Any) -> None:
    few = new_members(jax.random.key(0), 0.1, jax.tree.map(lambda leaf: leaf[:4], scales), common=2)
    many = new_members(jax.random.key(0), 0.1, scales, common=2)
    close(jax.random.key_data(many.init_key[:4]), jax.random.key_data(few.init_key))
    close(jax.random.key_data(many.data_key[:4]), jax.random.key_data(few.data_key))
    assert many.init_key[0] == at_index(derive(jax.random.key(0), "init"), 0)
    data = jax.random.key_data(many.data_key)
    assert (data[0] == data[1]).all() and not (data[1] == data[2]).all()


def test_common_random_numbers_are_the_same_batches(quadratic: Any, scales: Any) -> None:
    # With equal starts and scales, only the batches tell members apart.
    same = jax.tree.map(jnp.ones_like, scales)
    for common, distinct in ((6, 1), (3, 2)):
        members = new_members(jax.random.key(0), 0.1, same, common=common)
        members = members._replace(init_key=jnp.repeat(members.init_key[:1], 6))
        state, _ = run(Plan(quadratic, SPEC, chunk=3, common=common), members)
        assert len(np.unique(state.params.round(5), axis=0)) == distinct


def test_a_sweep_of_rates_scales_and_keys_compiles_once(quadratic: Any, scales: Any) -> None:
    traces = []

    class Counted(type(quadratic)):
        def loss(self, params: Any, batch: Any, hyper: Any) -> Any:
            traces.append(1)
            return super().loss(params, batch, hyper)

    ends = []
    problem = Counted()
    for seed, rate, factor in ((0, 0.1, 1.0), (0, 0.2, 1.0), (0, 0.1, 2.0), (1, 0.1, 1.0)):
        # A new plan and new members each time: equal plans share their compilation.
        hyper = jax.tree.map(lambda leaf, factor=factor: leaf * factor, scales)
        members = new_members(jax.random.key(seed), rate, hyper)
        state, _ = run(Plan(problem, replace(SPEC), chunk=4), members, n_chunks=2)
        ends.append(np.asarray(state.params))
    once = len(traces)
    assert len({end.tobytes() for end in ends}) == 4
    run(Plan(problem, SPEC, chunk=5), members)
    assert len(traces) == 2 * once, "another chunk length is another compilation"
    # One scan body, traced for its value and its gradient together.
    assert once <= 2


def test_one_rate_a_member_equals_runs_with_one_rate() -> None:
    spec = TransformerSpec(d_vocab=9, n_ctx=12, n_layers=1, n_heads=2, d_model=8)
    problem = NextToken(Transformer(spec), RepeatedSource(4, 12, 9, min_period=3, max_period=6))
    plan = Plan(problem, OptimSpec(steps=6), chunk=6)
    rates = (1e-3, 1e-2, 1e-1)
    # Keys of one member thrice: only the rates tell them apart.
    members = new_members(jax.random.key(0), jnp.array(rates), jnp.zeros(3))
    first = jnp.zeros(3, int)
    members = members._replace(init_key=members.init_key[first], data_key=members.data_key[first])
    state, metrics = run(plan, members)
    for i, rate in enumerate(rates):
        alone, solo = run(plan, new_members(jax.random.key(0), rate, jnp.zeros(1)))
        close(jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], state), alone)
        close({name: value[i : i + 1] for name, value in metrics.items()}, solo)
    # Adam moves each entry by about its rate a step.
    start = ensemble.init(plan, members).params["W_E"]
    moved = jnp.abs(state.params["W_E"] - start).max(axis=(1, 2))
    assert (moved[1:] > 5 * moved[:-1]).all()


@pytest.mark.parametrize("mapping", [Mapping.loop, Mapping.vmap])
def test_one_diverging_member_leaves_the_others_alone(
    quadratic: Any, scales: Any, mapping: Mapping
) -> None:
    plan = Plan(quadratic, SPEC, chunk=4, mapping=mapping, common=6)
    healthy, _ = run(plan, new_members(jax.random.key(0), 0.1, scales, common=6), n_chunks=2)
    sick_scales = scales._replace(scale=scales.scale.at[2].set(jnp.nan))
    sick = new_members(jax.random.key(0), 0.1, sick_scales, common=6)
    state, metrics = run(plan, sick, n_chunks=2)
    others = np.array([0, 1, 3, 4, 5])
    close(*(jax.tree.map(lambda leaf: leaf[others], s) for s in (state, healthy)))
    assert state.alive.tolist() == metrics["alive"].tolist() == [True, True, False, *[True] * 3]
    assert state.step.tolist() == [8, 8, 0, 8, 8, 8]
    assert jnp.isnan(metrics["loss"][2]) and jnp.isfinite(metrics["loss"][others]).all()
    start = ensemble.init(plan, sick)
    np.testing.assert_array_equal(state.params[2], start.params[2])


@pytest.mark.parametrize(("common", "n_devices"), [(1, 2), (3, 8), (6, 8)])
def test_several_devices_equal_one(
    quadratic: Any, scales: Any, common: int, n_devices: int
) -> None:
    members = new_members(jax.random.key(0), RATES, scales, common=common)
    one = Plan(quadratic, SPEC, chunk=4, common=common)
    many = replace(one, mesh=device_mesh(n_devices))
    expected, expected_metrics = run(one, members, n_chunks=2)
    state, metrics = run(many, members, n_chunks=2)
    close(state, expected)
    close(metrics, expected_metrics)
    assert state.params.shape == (6, 3), "padding never leaves the compiled code"


def test_a_sharded_ensemble_resumes_from_logical_members(
    quadratic: Any, scales: Any, tmp_path: Path
) -> None:
    members = new_members(jax.random.key(0), RATES, scales)
    one = Plan(quadratic, SPEC, chunk=4)
    many = replace(one, mesh=device_mesh(8))
    expected, _ = run(one, members, n_chunks=2)
    half, _ = run(many, members)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, half)
        abstract = jax.eval_shape(lambda: ensemble.init(one, members))
        half = checkpoints.restore(1, abstract)
    close(ensemble.advance(many, members)(half)[0], expected)


def test_even_ensembles_stay_split_over_the_devices(quadratic: Any) -> None:
    tree = jnp.zeros((16, 2))
    mesh = device_mesh(8)
    assert not place(tree, mesh, 16).sharding.is_fully_replicated
    assert place(jnp.zeros((6, 2)), mesh, 6).sharding.is_fully_replicated


def test_errors_name_the_argument(quadratic: Any, scales: Any) -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="chunk=0 must be at least 1"):
        Plan(quadratic, SPEC, chunk=0)
    with pytest.raises(ValueError, match="common=0 must be at least 1"):
        Plan(quadratic, SPEC, common=0)
    with pytest.raises(ValueError, match="common=4 must divide the number of members, 6"):
        new_members(key, 0.1, scales, common=4)
    with pytest.raises(ValueError, match="common=4 must divide the number of members, 6"):
        ensemble.advance(Plan(quadratic, SPEC, common=4), new_members(key, 0.1, scales))
    with pytest.raises(ValueError, match="common=2 consecutive members must share one data key"):
        ensemble.advance(Plan(quadratic, SPEC, common=2), new_members(key, 0.1, scales, common=3))
    with pytest.raises(ValueError, match=r"hyper=\(\) must have an axis of members"):
        new_members(key, 0.1, ())
    for hyper in ((jnp.zeros(3), jnp.zeros(4)), jnp.zeros(())):
        with pytest.raises(ValueError, match="hyper must have leaves with one leading axis"):
            new_members(key, 0.1, hyper)
    for n_devices in (0, 9):
        with pytest.raises(ValueError, match=rf"n_devices={n_devices} must be in \[1, 8\]"):
            device_mesh(n_devices)
