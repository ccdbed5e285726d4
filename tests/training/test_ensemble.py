"""Ensembles: members equal their solo runs, compile once, diverge alone, share devices."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.keys import at_index, derive
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.toy import ToySpec
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training import problem as loop
from circuitax.training.ensemble import (
    RULE,
    Mapping,
    Plan,
    as_cells,
    best_of,
    device_mesh,
    new_members,
    shared_batches,
    take,
)
from circuitax.training.language import NextToken
from circuitax.training.optim import Optimizer, OptimSpec
from circuitax.training.problem import Member, TrainState, init
from circuitax.training.toy import ToyHyper, ToyProblem

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


MODEL = Transformer(TransformerSpec(d_vocab=7, n_ctx=10, n_layers=2, n_heads=2, d_model=8))
SOURCE = RepeatedSource(batch=8, length=10, d_vocab=7, min_period=3, max_period=5)
# Plain SGD, since Adam divides small gradients by themselves and so enlarges rounding.
OPTIM = OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.0, steps=6)


def sharding_run(plan: Plan, members: Any) -> tuple[Any, dict]:
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    for _ in range(2):
        state, metrics = advance(state)
    return state, metrics


def sharding_close(a: Any, b: Any) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("n_members", "common", "n_devices", "data", "mapping"),
    [
        (1, 1, 8, 8, Mapping.loop),  # one model on all devices
        (3, 1, 8, 4, Mapping.loop),  # three members on two places: padded
        (4, 2, 4, 2, Mapping.vmap),
    ],
)
def test_split_batches_and_members_train_as_on_one_device(
    n_members: int, common: int, n_devices: int, data: int, mapping: Mapping
) -> None:
    members = new_members(jax.random.key(0), 0.1, jnp.zeros(n_members), common=common)
    one = Plan(NextToken(MODEL, SOURCE), OPTIM, chunk=3, mapping=mapping, common=common)
    many = replace(one, mesh=device_mesh(n_devices, data=data))
    expected, expected_metrics = sharding_run(one, members)
    state, metrics = sharding_run(many, members)
    sharding_close(state, expected)
    sharding_close(metrics, expected_metrics)
    start = ensemble.init(one, members)
    assert np.abs(np.asarray(state.params["W_U"] - start.params["W_U"])).max() > 1e-3
    assert state.params["W_E"].shape[0] == n_members


def test_each_device_works_on_its_own_samples() -> None:
    members = new_members(jax.random.key(0), 0.1, jnp.zeros(1))
    plan = Plan(NextToken(MODEL, SOURCE), OPTIM, chunk=1, mesh=device_mesh(8, data=8))
    state = ensemble.init(plan, members)
    program = jax.jit(ensemble._advance, static_argnums=0)
    compiled = program.lower(plan, state, members).compile().as_text()
    # Logits of one text of the eight, and the sum of gradients over devices.
    assert "f32[10,7]" in compiled and "f32[80,7]" not in compiled
    assert "all-reduce" in compiled


@pytest.mark.parametrize(
    ("n_members", "common", "n_devices"), [(5, 1, 5), (5, 5, 5), (10, 2, 5), (9, 1, 8), (1, 1, 1)]
)
def test_members_are_spread_over_all_devices_and_get_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, n_members: int, common: int, n_devices: int
) -> None:
    monkeypatch.setattr(ensemble, "every_device", device_mesh)
    density = jnp.linspace(0.1, 0.9, 5 * n_members).reshape(n_members, 5)
    hyper = ToyHyper(density, jnp.broadcast_to(0.5 ** jnp.arange(5), (n_members, 5)))
    members = new_members(jax.random.key(0), 0.1, hyper, common=common)
    plan = Plan(ToyProblem(ToySpec(5, 2), batch_size=16), OPTIM, 3, Mapping.loop, common)
    state, metrics = sharding_run(plan, members)
    (devices,) = {len(leaf.devices()) for leaf in jax.tree.leaves(state.params)}
    assert devices == (n_devices if n_members % n_devices == 0 else 8)
    expected = sharding_run(replace(plan, mesh=None), members)
    for x, y in zip(jax.tree.leaves((state, metrics)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(x, y)
    assert np.ptp(np.asarray(state.params.W)) > 0.1


@pytest.mark.parametrize(
    ("n_members", "n_samples", "shape"),
    [
        (1, 256, (1, 8)),
        (1, 32, (4, 2)),  # 16 samples for each device
        (1, 31, (8, 1)),
        (1, 48, (4, 2)),  # 3 would not divide the devices
        (2, 64, (2, 4)),
        (3, 64, (4, 2)),  # one copy in the place of five
        (5, 64, (8, 1)),
        (8, 64, (8, 1)),
        (9, 64, (8, 1)),
    ],
)
def test_devices_left_over_share_batches(n_members: int, n_samples: int, shape: tuple) -> None:
    mesh = device_mesh(8)
    found = shared_batches(mesh, n_members, n_samples)
    assert found.devices.shape == shape and [*found.devices.flat] == [*mesh.devices.flat]
    asked = device_mesh(8, data=2)
    assert shared_batches(asked, n_members, n_samples) is asked


NAN, INF = jnp.nan, jnp.inf


def test_lowest_finite_loss_wins_ties_to_the_lower_index() -> None:
    losses = jnp.array([[3.0, 1.0, 2.0], [2.0, 1.0, 1.0], [NAN, 5.0, -INF], [0.0, 4.0, 9.0]])
    alive = jnp.array([[True] * 3, [True] * 3, [True] * 3, [False, True, True]])
    best = best_of(losses, alive)
    assert best.restart.tolist() == [1, 1, 1, 1]
    assert best.loss.tolist() == [1.0, 1.0, 5.0, 4.0]
    assert best.n_alive.tolist() == [3, 3, 1, 2]
    assert "ties go to the lower index" in RULE


def test_a_cell_without_a_finite_restart_is_reported_not_chosen() -> None:
    best = best_of(jnp.array([[NAN, 1.0], [2.0, 1.0]]), jnp.array([[True, False], [True, True]]))
    assert best.restart.tolist() == [-1, 1]
    assert best.n_alive.tolist() == [0, 2]
    chosen = take(jnp.arange(12.0).reshape(2, 2, 3), best.restart)
    assert np.isnan(chosen[0]).all()
    assert chosen[1].tolist() == [9.0, 10.0, 11.0]


def test_cells_are_row_major_and_restarts_vary_fastest() -> None:
    cells = as_cells({"x": jnp.arange(12), "y": jnp.zeros((12, 5))}, 2, 3)
    assert cells["x"][1, 2].tolist() == [10, 11]
    assert cells["y"].shape == (2, 3, 2, 5)
