"""Comparison of the numbers of finished runs with those of the accepted ones, in words."""

from collections.abc import Mapping
from typing import Any

from circuitax.lab.runs import DamagedRun, WholeRun, accepted_run, provenance, verdicts, whole
from circuitax.records.agreement import Agreement, agreement_text, compare


def against_accepted(runs: Mapping[str, WholeRun]) -> str:
    """Counts, and a line for each claim whose difference exceeds noise.

    Runs of another scale, seed or specification than the accepted one are named and not compared.

    Args:
        runs: Folder of a finished and settled run, by experiment.
    """
    found: dict[str, list[Agreement]] = {}
    apart: dict[str, str] = {}
    for name, run in runs.items():
        try:
            accepted = whole(accepted_run(name))
            here, there = provenance(run), provenance(accepted)
            if here["run"] == there["run"]:
                found[name] = compare(verdicts(run), verdicts(accepted))
            else:
                apart[name] = _apart(here, there)
        except DamagedRun as damaged:
            apart[name] = f"not compared, {damaged}"
        except ValueError:
            apart[name] = "no accepted run"
    return agreement_text(found, apart)


def _apart(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    for fact in ("scale", "seed", "dtype"):
        if here[fact] != there[fact]:
            return f"accepted with {fact}={there[fact]}"
    return "accepted with other settings"
