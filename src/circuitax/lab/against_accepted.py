"""How the numbers of finished runs differ from those of the accepted ones, in words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from circuitax.config.catalogue import checkout
from circuitax.lab.runs import ACCEPTED, PROVENANCE, provenance, results_folder, verdicts
from circuitax.records.agreement import Difference, agreement_text, compare


def against_accepted(runs: Mapping[str, Path]) -> str:
    """Counts, and a line for each claim that differs by more than noise.

    Runs of another scale, seed or specification than the accepted one are named and not compared.

    Args:
        runs: Folder of a finished and settled run, by experiment.
    """
    found: dict[str, list[Difference]] = {}
    apart: dict[str, str] = {}
    for name, run in runs.items():
        accepted = _accepted(name)
        if accepted is None:
            apart[name] = "no accepted run"
            continue
        here, there = provenance(run), provenance(accepted)
        if here["run"] == there["run"]:
            found[name] = compare(verdicts(run), verdicts(accepted))
        else:
            apart[name] = _apart(here, there)
    return agreement_text(found, apart)


def _accepted(name: str) -> Path | None:
    # Results may be kept elsewhere; what was accepted is in the checkout all the same.
    for folder in (results_folder(), checkout() / "results"):
        if (folder / name / ACCEPTED / PROVENANCE).is_file():
            return folder / name / ACCEPTED
    return None


def _apart(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    for fact in ("scale", "seed", "dtype"):
        if here[fact] != there[fact]:
            return f"accepted with {fact}={there[fact]}"
    return "accepted with other settings"
