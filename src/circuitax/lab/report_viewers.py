"""The viewers of the report: made from finished runs in a separate process, and cached.

An experiment that has viewers says so with a ``viewer.py`` whose ``view(run)`` reads the folder of
a finished run and returns them. Some read weights and run a model. The process that writes pages
stays without JAX and without memory of a device, so another one makes what is not kept yet.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from circuitax.config.catalogue import VIEWER, ExperimentEntry, discover
from circuitax.display.viewers import Viewer
from circuitax.lab.leftovers import remove_older
from circuitax.lab.runs import ARRAYS, WholeRun, whole, work_folder
from circuitax.lab.source import source_hash
from circuitax.records.manifest import contents
from circuitax.records.record import DATA
from circuitax.records.store import write_json

# In the folder of work: viewers by what they were made from.
FOLDER = "viewers"
_DAYS = 30.0
_SECONDS = 600.0  # for one experiment; they take some ten


class Views(NamedTuple):
    """The viewers of some runs.

    Attributes:
        shown: Viewers by experiment.
        missing: Why an experiment that has viewers shows none, by experiment.
    """

    shown: dict[str, list[Viewer]]
    missing: dict[str, str]


def views(runs: Mapping[str, WholeRun], entries: Mapping[str, ExperimentEntry]) -> Views:
    """The viewers of all experiments that have some.

    Args:
        runs: Folder of a finished run, by experiment.
        entries: All experiments.
    """
    found = Views({}, {})
    for name, entry in entries.items():
        if not entry.file(VIEWER).is_file():
            continue
        if name not in runs:
            found.missing[name] = "not run yet"
            continue
        path = _kept(runs[name], entry)
        try:
            kept = _read(path)
        except (OSError, ValueError, TypeError, KeyError):  # not made yet, or damaged since
            path.unlink(missing_ok=True)
            reason = _make(runs[name], entry, path)
            kept = reason or _read(path)
        if isinstance(kept, str):
            found.missing[name] = kept
        else:
            found.shown[name] = kept
    return found


def _read(path: Path) -> list[Viewer] | str:
    """The cached viewers, or the reason for their absence."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    return str(kept["reason"]) or [Viewer(**row) for row in kept["viewers"]]


def _kept(run: WholeRun, entry: ExperimentEntry) -> Path:
    made_from = [contents(run, (DATA, ARRAYS))]
    name = f"{entry.name}-{source_hash([entry.file(VIEWER)], also=made_from)}.json"
    return work_folder() / FOLDER / name


def _make(run: WholeRun, entry: ExperimentEntry, path: Path) -> str:
    """Make and cache the viewers of one run; returns an error, else an empty text."""
    command = [sys.executable, "-m", __name__, entry.name, str(run), str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {_SECONDS:.0f} s"
    if not path.is_file():
        lines = done.stderr.strip().splitlines() or [f"its process ended with {done.returncode}"]
        return lines[-1]
    remove_older(path.parent, _DAYS)
    return ""


def main(name: str, run: str, path: str) -> None:
    """Entry of the separate process: call the experiment, and save its result or its error."""
    found: dict[str, Any] = {"viewers": [], "reason": ""}
    try:
        viewers = discover()[name].load(VIEWER).view(whole(Path(run)))
        found["viewers"] = [viewer._asdict() for viewer in viewers]
    except Exception as error:  # the same data would raise it again
        found["reason"] = f"{type(error).__name__}: {error}"
    write_json(Path(path), found)


if __name__ == "__main__":
    main(*sys.argv[1:])
