"""The function that declares a quantity measures it: its return value holds the estimate."""

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.lab.page_items import claim_rows
from circuitax.records.claims import settle
from circuitax.records.measured import Measured, measured_by, measures
from circuitax.records.record import Record

RESULTS = Path(__file__).parents[2] / "results"
ENTRIES = {name: entry for name, entry in discover().items() if entry.load_claims()}


@measures("wide-*", "narrow")
def sizes() -> None:
    pass


@measures("narrow-again")
def again() -> None:
    pass


def measure(record: Record) -> Measured:
    return Measured({}, {})


@pytest.mark.parametrize(
    ("quantity", "function"),
    [("wide-3", sizes), ("narrow", sizes), ("narrow-again", again), ("wide", measure)],
)
def test_a_quantity_leads_to_the_function_that_declares_it(quantity: str, function: Any) -> None:
    assert measured_by(quantity, measure) is function


def declared(entry: ExperimentEntry) -> dict[str, Any]:
    """The function that each measured quantity of an experiment declares, by quantity."""
    whole = entry.load_measure()
    quantities = {claim.quantity for claim in entry.load_claims()}
    found = {name: measured_by(name, whole) for name in quantities}
    return {name: each for name, each in found.items() if hasattr(each, "quantities")}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, entry in ENTRIES.items()
        if declared(entry) and (RESULTS / name / "accepted").is_dir()
    ],
)
def test_declared_functions_return_what_they_declare(name: str) -> None:
    entry = ENTRIES[name]
    wanted = declared(entry)
    codes = {function.__code__ for function in wanted.values()}
    returned: list[tuple[Any, Any]] = []

    def note(frame: FrameType, event: str, value: Any) -> None:
        if event == "return" and frame.f_code in codes:
            returned.append((frame.f_code, value))

    record = Record.load(RESULTS / name / "accepted")
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        found = entry.load_measure()(record).estimates
    finally:
        sys.setprofile(before)
    for quantity, function in wanted.items():
        values = [value for code, value in returned if code is function.__code__]
        assert quantity not in found or any(
            value is found[quantity]
            or (isinstance(value, dict) and quantity in value)
            or (type(value) is tuple and any(quantity in part for part in value))
            for value in values
        ), (quantity, function.__name__)


def test_no_quantity_is_declared_twice_or_by_a_stale_name() -> None:
    for entry in ENTRIES.values():
        module = sys.modules[entry.load_measure().__module__]
        patterns = [p for each in vars(module).values() for p in getattr(each, "quantities", ())]
        quantities = {claim.quantity for claim in entry.load_claims()}
        for pattern in patterns:
            assert any(fnmatchcase(q, pattern) for q in quantities), (entry.name, pattern)
        for quantity in quantities:
            assert sum(fnmatchcase(quantity, p) for p in patterns) <= 1, (entry.name, quantity)


def test_claims_of_a_shared_measure_lead_to_where_it_is_shared() -> None:
    entry = ENTRIES["text_models"]
    unmet = {claim.id: "not measured here" for claim in entry.load_claims()}
    run = RESULTS / entry.name / "accepted"
    for row in claim_rows(run, entry, settle(entry.load_claims(), {}, unmet), RESULTS):
        path, number = row.code.split("#L")
        assert path == "../experiments/one_layer/shared/measures_text_family.py"
        line = (RESULTS / path).read_text().splitlines()[int(number) - 1]
        assert line.startswith("def measure("), line
