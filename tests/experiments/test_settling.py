"""Every accepted record settles its claims again, from what was saved alone and without JAX."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from circuitax.config.catalogue import discover
from circuitax.records.claims import Claim, SettledClaim, settle
from circuitax.records.estimate import estimate_from_json
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.records.settled_json import settled_to_json

RESULTS = Path(__file__).parents[2] / "results"
ENTRIES = discover()
ACCEPTED = {
    name: RESULTS / name / "accepted"
    for name in sorted(ENTRIES)
    if (RESULTS / name / "accepted" / "scalars.json").exists()
}
# What may differ where a small number is the difference of two that are below one.
ROUNDING = 1e-17
# Single precision in NumPy and the fits of SciPy differ that much between kinds of processors.
OF_PROCESSORS = 1e-7


def module_of(name: str, kind: str) -> ModuleType:
    """``measures.py`` of an experiment, or ``claims.py`` where that settles its own claims."""
    try:
        return importlib.import_module(f"{ENTRIES[name].package}.{kind}")
    except ModuleNotFoundError:
        return importlib.import_module(f"{ENTRIES[name].package}.claims")


def measured_again(name: str) -> Measured:
    return module_of(name, "measures").measure(Record.load(ACCEPTED[name]))


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_accepted_record_gives_the_accepted_numbers_and_verdicts(name: str) -> None:
    found = measured_again(name)
    accepted = json.loads((ACCEPTED[name] / "scalars.json").read_text())
    assert found.unmet == accepted["unmet"] and found.not_run == accepted["not_run"]
    assert found.estimates.keys() == accepted["measured"].keys()
    for quantity, wanted in accepted["measured"].items():
        estimate, before = found.estimates[quantity], estimate_from_json(wanted)
        assert (estimate.n, estimate.method) == (before.n, before.method)
        np.testing.assert_allclose(
            estimate[:3], before[:3], OF_PROCESSORS, ROUNDING, err_msg=quantity
        )
    nulls = ENTRIES[name].load_nulls()(Record.load(ACCEPTED[name]))
    verdicts = settle(module_of(name, "claims").CLAIMS, *found, nulls)
    wanted = json.loads((ACCEPTED[name] / "claims.json").read_text())
    assert {v.claim.id: v.verdict for v in verdicts} == {v["id"]: v["verdict"] for v in wanted}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_claims_are_those_that_were_accepted(name: str) -> None:
    fields = {"expected", *Claim.__dataclass_fields__} - {"explanation"}
    claims = [SettledClaim(claim, "", None, "") for claim in module_of(name, "claims").CLAIMS]
    accepted = json.loads((ACCEPTED[name] / "claims.json").read_text())
    stated = [{f: v[f] for f in fields} for v in map(settled_to_json, claims)]
    # A run that was settled before claims had nulls keeps none.
    assert stated == [{f: v.get(f) for f in fields} for v in accepted]
