"""Nulls: a claim that would hold in its null does not hold, and no null passes silently."""

import dataclasses
import json
import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from circuitax.records.claims import Claim, at_least, between, near, settle
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.null_draws import measured_again, shuffled, with_data
from circuitax.records.nulls import DRAWN, LARGEST_SHARE, Null, null_outcome
from circuitax.records.record import Record
from circuitax.records.settled_json import settled_from_json, settled_to_json

PERMUTED = Null("permuted", "the labels are shuffled within each seed")
CLAIM = Claim(
    "c", "a paper", "It is so", "rate", at_least(0.5), "half", origin="ours", null=PERMUTED
)
MEASURED = {"rate": Estimate(0.8, 0.7, 0.9, 4, "mean")}


def wide(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half, 4, "mean")


@pytest.mark.parametrize(
    ("draws", "verdict", "holding"),
    [
        ([0.1, 0.2], "holds", 0),
        ([0.1] * 19 + [0.6], "holds", 1),  # one in twenty, no more
        ([0.1] * 18 + [0.6], "would hold anyway", 1),
        ([exact(0.7)], "would hold anyway", 1),
        ([wide(0.6, 0.2)] * 9, "holds", 0),  # none of its intervals lies in what is allowed
        ([wide(0.6, 0.05)] * 9, "would hold anyway", 9),
        ([None, None], "holds", 0),  # the null lacks what the claim speaks of
        ([None, 0.6], "would hold anyway", 1),
    ],
)
def test_a_claim_that_holds_in_its_null_would_hold_anyway(
    draws: list, verdict: str, holding: int
) -> None:
    (found,) = settle([CLAIM], MEASURED, {}, None, {"permuted": {"rate": draws}})
    assert found.verdict == verdict
    assert found.null is not None
    assert (found.null.n, found.null.holding) == (len(draws), holding)
    assert settled_from_json(json.loads(json.dumps(settled_to_json(found)))) == found


def test_only_what_holds_would_hold_anyway() -> None:
    nulls = {"permuted": {"rate": [0.9, 0.8]}}
    for estimate, verdict in ((exact(0.2), "fails"), (wide(0.5, 0.1), "undecided")):
        (found,) = settle([CLAIM], {"rate": estimate}, {}, None, nulls)
        assert (found.verdict, found.null.holding) == (verdict, 2)  # type: ignore[union-attr]
    few = dataclasses.replace(CLAIM, n=9)
    assert settle([few], MEASURED, {}, None, nulls)[0].verdict == "undecided"
    assert settle([CLAIM], MEASURED, {"c": "no head"}, None, {})[0].null is None


def test_a_null_takes_draws_of_its_own_kind_and_quantity() -> None:
    other = {"untrained": {"rate": [0.9]}, "permuted": {"loss": [0.9]}}
    with pytest.raises(
        ValueError, match=r"'c' needs draws of its null: .*\['permuted'\]\['rate'\]"
    ):
        settle([CLAIM], MEASURED, {}, None, other)
    with pytest.raises(ValueError, match="null of claim 'c': draws is empty"):
        settle([CLAIM], MEASURED, {}, None, {"permuted": {"rate": []}})
    with pytest.raises(ValueError, match="null of claim 'c': draws holds 1 values that are not"):
        settle([CLAIM], MEASURED, {}, None, {"permuted": {"rate": [0.1, math.nan]}})
    with pytest.raises(ValueError, match=r"null of claim 'c': draws has shape \(2, 3\)"):
        settle([CLAIM], MEASURED, {}, None, {"permuted": {"rate": np.ones((2, 3))}})
    plain = dataclasses.replace(CLAIM, null=None)
    assert settle([plain], MEASURED, {}, None, other)[0].verdict == "holds"


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=60), st.floats(-1, 2))
def test_the_share_is_that_of_the_draws_that_hold(values: list[float], low: float) -> None:
    outcome = null_outcome(values, lambda draw: draw.value >= low)
    above = float(np.mean(np.array(values) >= low))
    assert outcome.holding / outcome.n == pytest.approx(above)
    assert outcome.holds == (above > LARGEST_SHARE)
    quantiles = np.quantile(values, [0.05, 0.5, 0.95])
    assert (outcome.low, outcome.median, outcome.high) == pytest.approx(tuple(quantiles))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("guess", "how"), "kind='guess' of a null must be one of"),
        (("random", " "), "how=' ' of a null must say how it is made"),
        (("random", "how", 0.5), "answer=0.5 of a null must be given for a 'printed number'"),
        (("printed number", "how"), "answer=None of a null must be given for a 'printed number'"),
        (("printed number", "how", math.inf), "answer=inf of a null must be finite"),
    ],
)
def test_a_null_checks_itself(fields: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Null(*fields)


def test_a_printed_number_misses_what_a_random_answer_gives() -> None:
    chance = Null("printed number", "one of four at random", 0.25)
    claim = dataclasses.replace(CLAIM, expected=near(0.75, 0.05), null=chance)
    assert claim.tolerance == pytest.approx(0.05 / 0.5)
    assert settle([claim], {"rate": exact(0.74)}, {})[0].verdict == "holds"
    for allowed in (between(0.25, 0.9), near(0.25, 0), at_least(0.5)):
        with pytest.raises(ValueError, match=r"answer=0\.25 of the null of claim 'c' must lie out"):
            dataclasses.replace(claim, expected=allowed)
    assert math.isnan(CLAIM.tolerance)


def test_what_is_proved_needs_no_null() -> None:
    assert CLAIM.needs_null
    assert not dataclasses.replace(CLAIM, origin="theorem").needs_null
    assert not dataclasses.replace(CLAIM, kind="identity").needs_null
    assert set(DRAWN).isdisjoint({"theorem", "printed number", "not on record"})


def test_shuffled_variables_keep_their_relation_and_lose_the_others() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 30))
    data = xr.Dataset(
        {"x": (("seed", "head"), x), "y": (("head", "seed"), 2 * x.T), "z": (("seed", "head"), x)},
        {"head": np.arange(30)},
    )
    found = shuffled(data, ("x", "y"), "head", np.random.default_rng(0), each=("seed",))
    np.testing.assert_array_equal(found.y.values, 2 * found.x.values.T)
    np.testing.assert_array_equal(np.sort(found.x.values, axis=1), np.sort(x, axis=1))
    np.testing.assert_array_equal(found.z.values, x)
    orders = [[np.flatnonzero(x[i] == value)[0] for value in found.x.values[i]] for i in range(4)]
    assert len(set(map(tuple, orders))) == 4
    alike = shuffled(data, ("z",), "head", np.random.default_rng(0))
    moved = [[np.flatnonzero(x[i] == value)[0] for value in alike.z.values[i]] for i in range(4)]
    assert moved[0] != list(range(30)) and all(row == moved[0] for row in moved)
    with pytest.raises(ValueError, match=r"names='w' must have the dimensions \('seed', 'head'\)"):
        shuffled(data.assign(w=("head", x[0])), ("w",), "head", rng, each=("seed",))


def test_draws_are_measured_like_the_record() -> None:
    def measure(record: Record) -> Measured:
        x, y = record.data.x.values, record.data.y.values
        found = {
            "slope": mean_estimate([np.corrcoef(*pair)[0, 1] for pair in zip(x, y, strict=True)])
        }
        return Measured(found if record.data.attrs.get("head", True) else {}, {})

    rng = np.random.default_rng(1)
    x = rng.normal(size=(8, 50))
    record = Record(xr.Dataset(dict.fromkeys("xy", (("seed", "token"), x))), {"members": 8})
    altered = []
    for i in range(20):
        rng = np.random.default_rng(i)
        altered.append(with_data(record, shuffled(record.data, ("y",), "token", rng, ("seed",))))
    draws = measured_again(measure, altered)["slope"]
    assert all(draw is not None and abs(draw.value) < 0.3 for draw in draws)
    assert len({draw.value for draw in draws if draw is not None}) == 20
    assert measure(record).estimates["slope"].value == pytest.approx(1)
    without = with_data(record, record.data.assign_attrs(head=False))
    assert without.notes == {"members": 8}
    assert measured_again(measure, [record, without])["slope"][1] is None
