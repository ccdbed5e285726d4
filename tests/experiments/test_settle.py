"""Settling a record by a table: controls, what cannot be taken, and faults that are named."""

import types

import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import ExperimentEntry
from circuitax.lab.settle import settle_rows
from circuitax.records.rule import NOT_TESTED, REPRODUCED
from circuitax.records.sample import Absent, mean_of, share_of
from circuitax.records.table import read_table

TABLE = """
title = "T"
message = "M."
[[row]]
id = "row"
paper = "toy_models"
says = "It rises."
[[row.quantity]]
id = "q"
says = "rise"
measure = "{measure}"
at = {{ arm = "two" }}
rule = "relation"
side = "above"
control = {{ is = "the control", {control} }}
"""


def rise(data, arm):
    return mean_of(data.score.sel(arm=arm).values)


def positive(data, arm):
    return {"q": share_of(data.score.sel(arm=arm).values > 0)}


def missing(data, arm):
    raise Absent("no head formed")


def broken(data, arm):
    return data.nothing


@pytest.fixture
def settle(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    score = np.stack([rng.normal(size=12), 5 + rng.normal(size=12)])
    data = xr.Dataset({"score": (("arm", "member"), score)}, {"arm": ["one", "two"]})

    def turned(data, rng):
        return data.assign(score=data.score * rng.choice([-1, 1], size=data.score.shape))

    module = types.ModuleType("readings")
    for function in (rise, positive, missing, broken):
        setattr(module, function.__name__, function)
    module.WORLDS = {"turned": turned}
    monkeypatch.setattr(ExperimentEntry, "load", lambda self, part: module)

    def settled(measure, control):
        path = tmp_path / "claims.toml"
        path.write_text(TABLE.format(measure=measure, control=control))
        entry = ExperimentEntry("e", "e", tmp_path, tmp_path, "", read_table(path))
        return settle_rows(data, entry)[0]

    return settled


@pytest.mark.parametrize(
    ("control", "low", "high", "n"),
    [
        ("value = 0.5", 0.5, 0.5, 1),
        ('measure = "rise", at = { arm = "one" }', -2, 2, 1),
        ('world = "swap", dim = "arm", of = ["one", "two"]', -2, 2, 1),
        ('world = "turned", draws = 30', -4, 4, 30),
    ],
)
def test_controls(settle, control, low, high, n):
    row = settle("rise", control)
    found = row.quantities[0]
    assert row.word == REPRODUCED and found.estimate.n == 12
    assert low <= found.control.low <= found.control.median <= found.control.high <= high
    assert found.control.n == n


def test_one_of_several_samples_is_taken_by_its_name(settle):
    found = settle("positive", "value = 0.5").quantities[0].estimate
    assert (found.value, found.n) == (1.0, 12)


def test_what_is_absent_is_not_tested(settle):
    row = settle("missing", "value = 0.5")
    assert (row.word, row.why) == (NOT_TESTED, "no head formed")


@pytest.mark.parametrize(
    ("measure", "control", "words"),
    [
        ("broken", "value = 0", r"test_settle.py:\d+: broken.*AttributeError"),
        ("none", "value = 0", "measure='none' must be a function of readings.py"),
        ("rise", 'world = "tuned"', "world='tuned' must be in WORLDS"),
    ],
)
def test_faults_name_their_place(settle, measure, control, words):
    with pytest.raises(ValueError, match=words):
        settle(measure, control)
