"""Settle the claims of a finished run from its saved record alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from circuitax.config.catalogue import CLAIMS as CLAIMS_MODULE
from circuitax.config.catalogue import MEASURES, ExperimentEntry
from circuitax.lab.runs import CLAIMS, SCALARS, SETTLED, verdicts, whole
from circuitax.lab.source import source_hash
from circuitax.records.claims import SettledClaim, settle
from circuitax.records.manifest import checksums
from circuitax.records.record import DATA, Record
from circuitax.records.settled_json import settled_to_json
from circuitax.records.store import write_json

T = TypeVar("T")


def settle_run(folder: Path, entry: ExperimentEntry) -> list[SettledClaim]:
    """The verdict on every claim of an experiment, from the record of one run.

    The record is loaded, the experiment measures it and draws the nulls of its claims, and these
    are settled by what was measured; nothing is computed with JAX. ``claims.json`` and
    ``scalars.json`` keep the outcome. They are made again when the source of the claims or of the
    measures has changed, or when one of the two files is damaged, but never from damaged data.

    Args:
        folder: Folder of the run; only its data file is read, and all are checked before.
        entry: Its experiment.

    Raises:
        DamagedRun: If the run is not whole; what was settled stays as it was.
        ValueError: If the record does not settle a claim.
    """
    source = _source(entry)
    if _is_settled(folder, source):
        return verdicts(folder)
    record = Record.load(whole(folder))
    measured = _applied("measure", entry.load_measure(), record, entry, folder)
    nulls = _applied("nulls", entry.load_nulls(), record, entry, folder)
    found = settle(entry.load_claims(), *measured, nulls)
    write_json(folder / SCALARS, measured.to_json())
    write_json(folder / CLAIMS, [settled_to_json(settled) for settled in found])
    write_json(folder / SETTLED, {"source": source, "sha256": _files(folder)})
    return found


def _applied(
    name: str, function: Callable[[Record], T], record: Record, entry: ExperimentEntry, folder: Path
) -> T:
    try:
        return function(record)
    except Exception as error:
        raise ValueError(
            f"{name}() of {entry.name!r} failed on the record of run {folder.name!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _is_settled(folder: Path, source: str) -> bool:
    try:
        kept = json.loads((folder / SETTLED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(kept == {"source": source, "sha256": _files(folder)})


def _files(folder: Path) -> dict[str, str]:
    return checksums(folder, (DATA, SCALARS, CLAIMS))


def _source(entry: ExperimentEntry) -> str:
    files = (entry.file(CLAIMS_MODULE), entry.file(MEASURES))
    return source_hash([path for path in files if path.is_file()])
