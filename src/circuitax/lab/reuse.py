"""Why a run is computed again although it is there: said before it begins.

`lab.conduct` decides; this module reads the same facts and puts them into words.
"""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from circuitax.config.cells import Cell
from circuitax.lab.conduct import source_of
from circuitax.lab.runs import ARRAYS, provenance, run_folder
from circuitax.lab.source import LIBRARIES
from circuitax.records.manifest import contents, damage
from circuitax.records.record import DATA


def reasons(cell: Cell) -> Iterator[str]:
    """A line for each finished run that is computed again, upstream runs first.

    Nothing is said of a run that is not there yet, nor of a damaged one, which `conduct` names.

    Args:
        cell: What is asked for.
    """
    for item in cell.inputs:
        yield from reasons(item)
    folder = run_folder(cell.entry.name, cell.id)
    if folder.is_dir() and not damage(folder):
        reason = _reason(cell, folder)
        if reason:
            yield f"{cell.entry.name} {cell.id} is computed again: {reason}"


def _reason(cell: Cell, folder: Path) -> str:
    """Why a whole run is not good any more; empty if it is."""
    if cell.root.again:
        return "again=true asks for it"
    facts = provenance(folder)
    if facts["source"] != source_of(cell):
        versions = [
            f"{name} {facts['versions'].get(name)} -> {metadata.version(name)}"
            for name in LIBRARIES
            if facts["versions"].get(name) != metadata.version(name)
        ]
        what = ", ".join(versions) if versions else "code that its numbers depend on"
        return f"{what} changed"
    for item in cell.inputs:
        run = run_folder(item.entry.name, item.id)
        if not run.is_dir():
            return f"its input {item.entry.name} is not there any more"
        if damage(run) or contents(run, (DATA, ARRAYS)) != facts["input_data"][item.entry.name]:
            return f"the data of its input {item.entry.name} changed"
    return ""
