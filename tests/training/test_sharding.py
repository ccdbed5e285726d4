"""Language models on eight devices: batches split, members side by side, both; same numbers."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.toy import ToySpec
from circuitax.models.transformer import Transformer
from circuitax.training import ensemble
from circuitax.training.ensemble import (
    Mapping,
    Plan,
    device_mesh,
    new_members,
    shared_batches,
    split_samples,
)
from circuitax.training.language import NextToken, train_on_text
from circuitax.training.optim import Optimizer, OptimSpec
from circuitax.training.toy import ToyHyper, ToyProblem

MODEL = Transformer(TransformerSpec(d_vocab=7, n_ctx=10, n_layers=2, n_heads=2, d_model=8))
SOURCE = RepeatedSource(batch=8, length=10, d_vocab=7, min_period=3, max_period=5)
# Plain SGD, since Adam divides small gradients by themselves and so enlarges rounding.
OPTIM = OptimSpec(Optimizer.sgd, learning_rate=0.1, weight_decay=0.0, steps=6)


def run(plan: Plan, members: Any) -> tuple[Any, dict]:
    state, advance = ensemble.init(plan, members), ensemble.advance(plan, members)
    for _ in range(2):
        state, metrics = advance(state)
    return state, metrics


def close(a: Any, b: Any) -> None:
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
    expected, expected_metrics = run(one, members)
    state, metrics = run(many, members)
    close(state, expected)
    close(metrics, expected_metrics)
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


def test_text_from_disk_is_split_as_on_the_device() -> None:
    text = np.random.default_rng(0).integers(0, 7, 300).astype(np.uint16)
    sizes = {"batch": 4, "length": 10, "seeds": 2, "chunk": 2}
    losses = []
    for mesh in (None, device_mesh(8, data=4)):
        for limit in (10_000, 100):
            state, advance = train_on_text(
                jax.random.key(0), MODEL, OPTIM, text, device_bytes=limit, mesh=mesh, **sizes
            )
            losses.append(np.asarray(advance(state)[1]["loss"]))
    for other in losses[1:]:
        np.testing.assert_allclose(other, losses[0], rtol=1e-5)


def test_toy_models_split_their_columns() -> None:
    density, importance = jnp.array([0.9, 0.1, 0.5, 0.3, 0.7]), 0.5 ** jnp.arange(5)
    hyper = ToyHyper(*(jnp.stack([row, row[::-1]]) for row in (density, importance)))
    members = new_members(jax.random.key(0), 0.1, hyper)
    one = Plan(ToyProblem(ToySpec(5, 2), batch_size=16), OPTIM, chunk=3)
    expected, _ = run(one, members)
    state, _ = run(replace(one, mesh=device_mesh(8, data=4)), members)
    close(state, expected)


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
    state, metrics = run(plan, members)
    (devices,) = {len(leaf.devices()) for leaf in jax.tree.leaves(state.params)}
    assert devices == (n_devices if n_members % n_devices == 0 else 8)
    expected = run(replace(plan, mesh=None), members)
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


def test_errors_name_the_argument() -> None:
    members = new_members(jax.random.key(0), 0.1, jnp.zeros(1))
    plan = Plan(NextToken(MODEL, replace(SOURCE, batch=6)), OPTIM, mesh=device_mesh(4, data=4))
    with pytest.raises(ValueError, match="batch=6 must be divisible by data=4 of the mesh"):
        ensemble.advance(plan, members)(ensemble.init(plan, members))
    for data in (0, 3):
        with pytest.raises(ValueError, match=f"data={data} must divide the number of devices, 8"):
            device_mesh(data=data)
    rows = jax.make_mesh((8,), ("rows",), axis_types=(AxisType.Auto,))
    with pytest.raises(ValueError, match=r"mesh has axes \('rows',\), must have \('member', 'data"):
        Plan(plan.problem, OPTIM, mesh=rows)
    with pytest.raises(ValueError, match="mesh='all' must be 'auto', a mesh or None"):
        Plan(plan.problem, OPTIM, mesh="all")
    samples = jnp.ones(3)
    assert split_samples(samples) is samples, "nothing to do without a mesh"
