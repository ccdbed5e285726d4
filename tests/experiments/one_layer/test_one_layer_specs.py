"""The one-layer and neuron experiments: what they refuse, and how their records settle claims."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.data.text import TextSpec
from circuitax.kernel.spec import TransformerSpec
from circuitax.models.transformer import init
from circuitax.records.claims import FAILS, HOLDS, settle
from circuitax.records.record import Record
from experiments.one_layer.neuron_tables import experiment as neuron_tables
from experiments.one_layer.neuron_tables.measures import measure as measure_neurons
from experiments.one_layer.neuron_tables.measures import of_few
from experiments.one_layer.one_layer_circuits import experiment as one_layer_circuits
from experiments.one_layer.one_layer_circuits.additive import AdditiveTask
from experiments.one_layer.one_layer_circuits.claims import CLAIMS
from experiments.one_layer.one_layer_circuits.measures import measure, nulls
from experiments.one_layer.one_layer_circuits.unless import UnlessTask

RESULTS = Path(__file__).parents[3] / "results"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"windows": 0}, "windows=0"),
        ({"windows": 1}, "windows=1 must be at least 2"),
        ({"bugs": 0}, "bugs=0"),
        ({"bug_tokens": 513}, "bug_tokens=513 must be at most task.d_vocab=512"),
        ({"table_tokens": 513}, "table_tokens=513 must be at most task.d_vocab=512"),
        ({"table_tokens": 3}, "sources=4 must be at most table_tokens=3"),
        (
            {"bug_tokens": 2000, "task": TextSpec(d_vocab=4096)},
            "bug_tokens=2000 must be at most 1024",
        ),
        ({"bug_tokens": 8}, "bug_sources=32 must be at most bug_tokens=8"),
        ({"unless": UnlessTask(chunk=30)}, "unless.chunk=30 must divide optim.steps=10000"),
    ],
)
def test_one_layer_circuits(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        one_layer_circuits.Spec(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"batch": 0}, "batch=0"),
        ({"chunk": 7}, "chunk=7 must divide optim.steps=10000"),
    ],
)
def test_additive_task(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdditiveTask(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": 0}, "seeds=0"),
        ({"model": TransformerSpec(d_vocab=9, n_layers=2)}, "model.n_layers=2 must be 1"),
        ({"model": TransformerSpec(d_vocab=5, n_layers=1)}, "model.d_vocab=5 must be at least 6"),
    ],
)
def test_unless_task(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UnlessTask(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"windows": 0}, "windows=0"),
        ({"entries": 0}, "entries=0"),
        ({"neurons": 0}, "neurons=0"),
        ({"firing": 0.0}, "firing=0.0 must be above 0"),
        ({"firing": 0.6}, "firing=0.6"),
    ],
)
def test_neuron_tables(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        neuron_tables.Spec(**change)


def test_a_model_without_mlps_has_no_neuron_tables() -> None:
    bare = TransformerSpec(d_vocab=7, n_ctx=4, n_layers=1, n_heads=1, d_model=8)
    model, windows = init(jax.random.key(0), bare), jnp.zeros((2, 4), int)
    with pytest.raises(ValueError, match="d_mlp=None of text_models"):
        neuron_tables.of_member(model, windows, neuron_tables.Spec())


def test_a_model_with_deeper_mlps_has_no_neuron_tables() -> None:
    deeper = TransformerSpec(
        d_vocab=7, n_ctx=4, n_layers=1, n_heads=1, d_model=8, d_mlp=5, mlp_depth=2
    )
    model, windows = init(jax.random.key(0), deeper), jnp.zeros((2, 4), int)
    with pytest.raises(ValueError, match=r"W_hidden .* must be None \(mlp_depth=1\)"):
        neuron_tables.of_member(model, windows, neuron_tables.Spec())


def test_text_models_without_full_ones_have_no_neuron_tables() -> None:
    class WithoutFull:
        def input(self, name: str) -> Record:
            return Record(xr.Dataset(coords={"model": ["layers-0", "layers-1"]}))

    with pytest.raises(ValueError, match="full_seeds=0 of text_models must be at least 1"):
        neuron_tables.run(neuron_tables.Spec(), jax.random.key(0), WithoutFull())


@pytest.mark.parametrize(
    ("change", "unmet"),
    [
        ({"gap_alive": False}, {"additivity-gap", "additivity-gap-learned"}),
        ({"p_out": 0.75}, {"additivity-gap-learned"}),
        ({"bug_said": np.nan}, {"bugs-said"}),
        ({"sum_end": np.nan}, {"text-additivity-gap", "text-ensemble"}),
    ],
)
def test_one_layer_claims_without_their_precondition(
    change: dict[str, float], unmet: set[str]
) -> None:
    record = Record.load(RESULTS / "one_layer_circuits" / "accepted")
    for name, value in change.items():
        record.data[name] = xr.full_like(record.data[name], value)
    found = measure(record)
    assert {*found.unmet, *found.not_run} == unmet
    assert bool(found.not_run) == ("p_out" not in change and "bug_said" not in change)
    assert not unmet & set(found.estimates)


def test_one_trained_head_of_four_does_not_make_heads_copy() -> None:
    record = Record.load(RESULTS / "one_layer_circuits" / "accepted")
    (claim,) = (claim for claim in CLAIMS if claim.id == "ov-copying-rise")
    data = record.data
    best = data.copying == data.copying.max("head")
    alone = Record(data.assign(copying=data.copying.where(best, data.copying_at_init)))
    own, one = (
        settle([claim], measure(made).estimates, {}, None, nulls(made))[0]
        for made in (record, alone)
    )
    assert (own.verdict, one.verdict) == (HOLDS, FAILS)
    # Beside one trained head the untrained ones of other seeds make the median rise a little.
    assert own.null is not None and own.null.median is not None and 0 < own.null.median < 0.25


def test_two_trained_heads_of_four_are_not_most() -> None:
    record = Record.load(RESULTS / "one_layer_circuits" / "accepted")
    (claim,) = (claim for claim in CLAIMS if claim.id == "ov-most-copy")
    found = []
    for n_copying in (2, 3):
        copying = xr.full_like(record.data.copying, 0.0)
        copying[{"head": slice(n_copying)}] = 1
        made = Record(record.data.assign(copying=copying), record.notes)
        found.append(settle([claim], measure(made).estimates, {}, None, nulls(made))[0])
    assert [one.verdict for one in found] == [FAILS, HOLDS]
    assert found[1].null is not None and found[1].null.median == 0.5


def test_a_unit_that_fires_for_nothing_counts_half() -> None:
    record = Record.load(RESULTS / "neuron_tables" / "accepted")
    record.data["fired"] = record.data.everywhere
    found = measure_neurons(record).estimates
    assert found["neuron-values"].value == 0.5
    assert found["neuron-lift"].value == 1
    before = found["neuron-values-null"].value
    assert found["neuron-values-rise"].value == pytest.approx(0.5 - before)


def test_a_lift_is_that_of_the_median_unit_of_the_lesser_layer() -> None:
    data = Record.load(RESULTS / "neuron_tables" / "accepted").data

    def lift(fired: xr.DataArray) -> float:
        return measure_neurons(Record(data.assign(fired=fired))).estimates["neuron-lift"].value

    few = of_few(data, 0.25)
    # A quarter of the units carries a ratio of means, and the median unit has no gain.
    assert (few.mean() / data.everywhere.mean()) > 3 and lift(few) == 1
    # Nor has a model of which one layer alone has any.
    for layer in (0, 1):
        assert lift(data.fired.where(data.layer == layer, data.everywhere)) == 1
    assert lift(data.fired) > 2.5
    # Units whose values never come count as no gain.
    never = data.everywhere.where(data.unit % 4 > 0, 0)
    none = data.assign(fired=data.fired.where(never > 0, 0), everywhere=never)
    assert 1 < measure_neurons(Record(none)).estimates["neuron-lift"].value < lift(data.fired)
