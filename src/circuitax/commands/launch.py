"""Launch of a checked command line through Hydra, and the outcome of each job."""

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import hydra

from circuitax.commands.job import LAUNCHER
from circuitax.config.catalogue import checkout
from circuitax.config.planned_runs import PlannedRun
from circuitax.lab.leftovers import LOGS_DAYS, remove_older
from circuitax.lab.runs import work_folder
from circuitax.lab.stop import SIGNALS, Stopped
from circuitax.lab.sweeps import FOLDER, note_sweep
from circuitax.records.owner import this_process


def through_hydra(task: Callable[..., Any], arguments: Sequence[str]) -> int:
    """Run Hydra's own main on these arguments; returns its exit status."""
    decorated = hydra.main(
        version_base="1.3", config_path=str(checkout() / "conf"), config_name="config"
    )(task)
    before = sys.argv
    sys.argv = ["experiments.run", *arguments]  # which Hydra reads
    try:
        decorated()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv = before
    return 0


@contextmanager
def stopping_in_one_line() -> Iterator[None]:
    """Context in which a signal raises ``Stopped`` unless a stop flag is active.

    Jobs and worker processes have stop flags; outside them there is nothing to save.

    Raises:
        Stopped: When a signal came.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    os.environ[LAUNCHER] = this_process()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def job_folder(multirun: bool) -> Path:
    """A new folder for Hydra's output, named by the time (UTC, so that names sort by age).

    Folders of commands from long ago are removed.
    """
    stamp = f"{time.strftime('%Y-%m-%d_%H-%M-%S', time.gmtime())}_{os.getpid()}"
    parent = work_folder() / (FOLDER if multirun else "hydra")
    remove_older(parent, LOGS_DAYS)
    parent.mkdir(parents=True, exist_ok=True)
    for nth in itertools.count(1):  # in containers, others have this process id at this second
        folder = parent / (stamp if nth == 1 else f"{stamp}.{nth}")
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("unreachable")


def note_sweeps(name: str, runs: Sequence[PlannedRun]) -> None:
    """Note the runs of a sweep for each experiment, so that ``collect`` misses none."""
    for experiment in sorted({planned.entry.name for planned in runs}):
        jobs = [
            {"run": planned.id, "overrides": list(planned.overrides)}
            for planned in runs
            if planned.entry.name == experiment
        ]
        note_sweep(experiment, name, jobs)
