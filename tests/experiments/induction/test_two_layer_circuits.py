"""Two-layer circuits: what is refused, what a known circuit measures, and preconditions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.circuits.known import induction_model
from circuitax.data.synthetic import RepeatedSource
from circuitax.kernel.spec import TransformerSpec
from circuitax.records.claims import FAILS, HOLDS, WOULD_HOLD, settle
from circuitax.records.null_samples import exchanged
from circuitax.records.record import Record
from circuitax.training.optim import OptimSpec
from experiments.induction.shared.head_roles import roles
from experiments.induction.shared.two_layers import AXES
from experiments.induction.shared.weight_readings import weight_readings
from experiments.induction.two_layer_circuits import measures
from experiments.induction.two_layer_circuits.claims import CLAIMS
from experiments.induction.two_layer_circuits.experiment import Spec
from experiments.induction.two_layer_circuits.measures import measure
from experiments.induction.two_layer_circuits.text_readings import text_readings

MODEL = TransformerSpec(d_vocab=32, n_ctx=32)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"texts": 0}, "texts=0"),
        ({"chunk": 7}, "chunk=7 must divide optim.steps=40"),
        (
            {"model": TransformerSpec(d_vocab=32, n_ctx=32, n_layers=1)},
            "model.n_layers=1 must be 2",
        ),
        ({"model": TransformerSpec(d_vocab=33)}, "model.d_vocab=33 must equal task.d_vocab=32"),
        (
            {
                "task": RepeatedSource(d_vocab=12, max_period=16),
                "model": TransformerSpec(d_vocab=12, n_ctx=32),
            },
            "max_period=16 must be at most d_vocab=12",
        ),
    ],
)
def test_refusals(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spec(**{"model": MODEL, "optim": OptimSpec(steps=40), "chunk": 20} | change)


@pytest.fixture(scope="module")
def known() -> dict[str, np.ndarray]:
    """Everything measured of the hand-made induction model on random tokens, repeated."""
    model = induction_model(jax.random.key(0), 12, 16, n_distractors=1)
    block = np.stack([np.random.default_rng(i).permutation(12)[:6] for i in range(3)])
    texts = jnp.asarray(np.tile(block, (1, 3))[:, :16])
    found = jax.jit(text_readings, static_argnames="late")(model, texts, late=7)
    return {name: np.asarray(x) for name, x in (found | weight_readings(model)).items()}


MEMBERS = 40  # as many that agree have a lower end above 0.9


def members(prefix: float, known: dict[str, np.ndarray]) -> xr.Dataset:
    """The known model many times over, its induction score overwritten."""
    data = xr.Dataset(
        {name: (AXES[name], np.stack([values] * MEMBERS)) for name, values in known.items()},
        coords={"kind": list("QKV")},
    )
    data["alive"] = ("member", np.ones(MEMBERS, bool))
    data["uniform"] = np.log(12)
    data["composition_z_at_init"] = 0 * data.composition_z
    data.prefix[:, 1, 0] = prefix
    return roles(data)


def test_preconditions(known: dict[str, np.ndarray]) -> None:
    measured, unmet, _ = measure(Record(members(0.1, known)))
    assert set(measured) == {"ablation-identity"}
    assert set(unmet) == {claim.id for claim in CLAIMS} - {"ablation-identity"}
    assert f"only 0 of {MEMBERS} seeds" in unmet["k-composition-z"]
    measured, unmet, _ = measure(Record(members(0.9, known)))
    assert set(measured) == {claim.id for claim in CLAIMS} and not unmet
    assert measured["k-composition-first"].value == 1
    assert measured["corner-alone"].value > 0
    crowded = members(0.9, known)
    crowded.prefix[:, 1] = 0.9  # every head of layer 1 is an induction head
    _, unmet, _ = measure(Record(roles(crowded)))
    assert set(unmet) == {"corner-alone", "preserving-induction"}


def test_nulls_tell_a_circuit_from_one_that_was_there_before(
    known: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "exchanged", partial(exchanged, n_draws=100))
    data = members(0.9, known)
    of_weights = ("composition_z", "copying", "matching")
    nothing = {f"{name}_at_init": 0 * data[name] for name in of_weights}
    before = {f"{name}_at_init": data[name] for name in of_weights}

    # What one head is worth, both layers, and two heads one behind the other, in nats.
    def losses(*by_order: float) -> dict[str, tuple[tuple[str, str], np.ndarray]]:
        return {"order_loss": (("member", "order"), np.tile(by_order, (MEMBERS, 1)))}

    orders, more = losses(5.0, 3.0, 2.9), losses(5.0, 3.0, 2.5)
    # Near no loss at all the second half of the lead saves few nats, and is worth as much.
    alike = losses(5.0, 0.1, 0.0001)
    # An order 2 that takes away a third of the lead is worth as much as one that adds it.
    costs = losses(5.0, 3.0, 3.7)
    by_layer = np.tile([5, 4, 3, 2.95, 2.5], (MEMBERS, 1))
    first = {"first_order_loss": (("member", "selection"), by_layer)}
    attends = {"top_is_match": data.top_is_match * (data.layer == 1)}

    def verdicts(*changes: dict) -> dict[str, str]:
        record = Record(data.assign({k: v for change in changes for k, v in change.items()}))
        return {
            s.claim.id: s.verdict for s in settle(CLAIMS, *measure(record), measures.nulls(record))
        }

    names = ("k-composition-z", "copying-corner", "matching-corner")
    found, none = verdicts(nothing, orders, first, attends), verdicts(before, alike, first)
    assert {found[name] for name in names} == {HOLDS}
    assert {none[name] for name in names} == {WOULD_HOLD}
    assert (found["order-1-above-2"], none["order-1-above-2"]) == (HOLDS, FAILS)
    for other in (more, costs):
        assert verdicts(nothing, other, first, attends)["order-1-above-2"] == FAILS
    # 0.05 of 1 is left of the first layer, which would be all of it if savings added up.
    assert found["layer-0-redundant"] == HOLDS


def test_all_induction_heads_count_for_the_corner(known: dict[str, np.ndarray]) -> None:
    data = members(0.9, known)
    data.prefix[:, 1, 1] = 0.5  # a second induction head, which copies in half of the seeds
    data["copying"] = data.copying.copy(data=np.full(data.copying.shape, 0.8))
    data.copying[::2, 1, 1] = 0.6
    data["matching"] = data.matching.copy(data=np.full(data.matching.shape, 0.9))
    assert measure(Record(roles(data))).estimates["copying-corner"].value == 0.75
    data.matching[:, :, 1] = 0.6
    assert measure(Record(roles(data))).estimates["copying-corner"].value == 0.5


def test_two_orders_that_add_as_much_to_a_lead_share_it(known: dict[str, np.ndarray]) -> None:
    data = members(0.9, known)
    leads = np.array([0.0, 2.0, 4.0])
    losses = np.log(1 + 11 * np.exp(-leads))
    data["order_loss"] = (("member", "order"), np.tile(losses, (MEMBERS, 1)))
    assert measure(Record(data)).estimates["order-1-above-2"].value == pytest.approx(1)
    alike = measures._second_adds(data, 1.0).order_loss
    np.testing.assert_allclose(alike.isel(member=0), losses, rtol=1e-6)
    # Where order 2 costs all that order 1 adds, the loss is again that without heads.
    cost = measures._second_adds(data, -1.0).order_loss.isel(member=0)
    np.testing.assert_allclose(cost, losses[[0, 1, 0]], rtol=1e-6)
    parts = [measures._second_adds(data, part) for part in measures.SECOND_ADDS]
    found = [measures._second_order(one).mean().item() for one in parts]
    assert found == pytest.approx(measures.SECOND_ADDS)


def test_the_induction_head_that_attends_is_chosen_by_its_cost(
    known: dict[str, np.ndarray],
) -> None:
    data = members(0.9, known)
    data["top_is_match"] = data.top_is_match.copy(data=np.zeros(data.top_is_match.shape))
    data.top_is_match[:, 1, 0] = 1.0
    found = []
    for head in (0, 1):
        cost = data.ablated_preserving.copy(data=np.zeros(data.ablated_preserving.shape))
        cost[:, 1, head] = 1.0
        record = Record(data.assign(ablated_preserving=cost))
        found.append(measure(record).estimates["induction-attends"].value)
    assert found == [1, 0]
