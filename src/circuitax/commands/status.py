"""Status files of the jobs of a command line, and their reading."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from circuitax.records.store import write_json

# Names that nobody else gives: the folder may be the user's, with files of its own.
STATUS = "circuitax-status.json"
# The status of a job whose run another process computes.
BUSY = "busy"
REUSED = "reused"
# Those of a job whose run is there.
DONE = ("done", REUSED)
# Beside the jobs of a sweep: the number of the signal that stopped it.
STOPPED = "circuitax-stopped"


class JobStatus(NamedTuple):
    """Status of a job from its folder; ``status`` is ``"missing"`` without a file."""

    overrides: tuple[str, ...]
    status: str
    reason: str


def leave(
    path: Path, overrides: Sequence[str], status: str, reason: str, run: str | None = None
) -> None:
    """Write the status of a job into its folder.

    Args:
        path: ``STATUS`` in the job's folder.
        overrides: What was typed for the job.
        status: ``done``, ``reused``, ``failed``, ``stopped``, or ``busy`` when another process
            computes the run.
        reason: Why it is neither done nor reused.
        run: Identity of the run, where it is finished.
    """
    left = {"overrides": list(overrides), "status": status, "reason": reason, "run": run}
    write_json(path, left)


def forget_statuses(folder: Path) -> None:
    """Remove statuses of an earlier command from a folder named by hand."""
    for path in [folder / STOPPED, folder / STATUS, *folder.glob(f"*/{STATUS}")]:
        path.unlink(missing_ok=True)


def stopped_by(folder: Path) -> int | None:
    """The signal that stopped a job of a sweep on another machine, or None."""
    path = folder / STOPPED
    return int(path.read_text(encoding="utf-8")) if path.is_file() else None


def statuses(folder: Path, jobs: Sequence[Sequence[str]], multirun: bool) -> Iterator[JobStatus]:
    """The statuses of all jobs of the command line.

    Args:
        folder: Of the command line; the jobs of a sweep have numbered folders in it.
        jobs: What was typed for each job.
        multirun: Whether it is a sweep.
    """
    for number, typed in enumerate(jobs):
        path = (folder / str(number) if multirun else folder) / STATUS
        if path.is_file():
            left = json.loads(path.read_text(encoding="utf-8"))
            yield JobStatus(tuple(left["overrides"]), left["status"], left["reason"])
        else:
            yield JobStatus(tuple(typed), "missing", "it left no word, or was never started")
