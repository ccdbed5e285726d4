"""Reasons for computing a finished run again, printed before it begins.

`lab.conduct` decides; this module reads the same facts and puts them into words.
"""

from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata

from circuitax.config.planned_runs import PlannedRun
from circuitax.lab.conduct import source_of
from circuitax.lab.drawing import up_to_date
from circuitax.lab.runs import (
    ARRAYS,
    FIGURES_FAILED,
    DamagedRun,
    WholeRun,
    provenance,
    run_folder,
    whole,
)
from circuitax.lab.source import LIBRARIES
from circuitax.records.manifest import contents
from circuitax.records.record import DATA


def reasons(planned: PlannedRun, alike: frozenset[str] = frozenset()) -> Iterator[str]:
    """A line for each finished run to be recomputed, upstream runs first.

    Nothing is said of a run that is not there yet, nor of a damaged one, which `conduct` names.

    Args:
        planned: What is asked for.
        alike: Source hashes of other code whose runs are reused.
    """
    for item in planned.inputs:
        yield from reasons(item, alike)
    folder = run_folder(planned.entry.name, planned.id)
    if not folder.is_dir():
        return
    with suppress(DamagedRun):
        if reason := _reason(planned, whole(folder), alike):
            yield f"{planned.entry.name} {planned.id} is computed again: {reason}"


def reusable(planned: PlannedRun) -> WholeRun | None:
    """The finished run that `lab.conduct` would reuse as it is, figures included; None without one.

    Args:
        planned: What is asked for.
    """
    folder = run_folder(planned.entry.name, planned.id)
    if not folder.is_dir() or (folder / FIGURES_FAILED).exists():
        return None
    try:
        run = whole(folder)
    except DamagedRun:
        return None
    current = not _reason(planned, run, frozenset()) and all(
        reusable(item) for item in planned.inputs
    )
    return run if current and up_to_date(run, planned.entry) else None


def _reason(planned: PlannedRun, folder: WholeRun, alike: frozenset[str]) -> str:
    """Reason against the reuse of a whole run; empty if it can be reused."""
    if planned.settings.again:
        return "again=true asks for it"
    facts = provenance(folder)
    if facts["source"] not in {source_of(planned), *alike}:
        versions = [
            f"{name} {facts['versions'].get(name)} -> {metadata.version(name)}"
            for name in LIBRARIES
            if facts["versions"].get(name) != metadata.version(name)
        ]
        if versions:
            return f"{', '.join(versions)} changed"
        return (
            "code that its numbers depend on changed (reuse=twin keeps it if the twin is the same)"
        )
    for item in planned.inputs:
        run = run_folder(item.entry.name, item.id)
        if not run.is_dir():
            return f"its input {item.entry.name} is not there any more"
        try:
            read = contents(whole(run), (DATA, ARRAYS))
        except DamagedRun:
            read = ""
        if read != facts["input_data"][item.entry.name]:
            return f"the data of its input {item.entry.name} changed"
    return ""
