"""Hand a checked command line to Hydra, and read afterwards what came of each job."""

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import hydra

from circuitax.commands.job import LAUNCHER, STATUS, STOPPED
from circuitax.config.catalogue import checkout
from circuitax.config.cells import Cell
from circuitax.lab.runs import results_folder, work_folder
from circuitax.lab.stop import SIGNALS, Stopped
from circuitax.records.store import write_json

SWEEPS = "sweeps"


class JobStatus(NamedTuple):
    """What a job left in its folder; ``status`` is ``"missing"`` when it died without a word."""

    overrides: tuple[str, ...]
    status: str
    reason: str


def through_hydra(task: Callable[..., Any], arguments: Sequence[str]) -> int:
    """Run Hydra's own main on these arguments; its exit status."""
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
def workers_stop_first() -> Iterator[None]:
    """Within the block, a signal waits for a launcher's worker processes to save and stop.

    SIGTERM is passed on to them; Ctrl-C a terminal sends to every process by itself, and a second
    one would stop them at once. A job in this process has a flag in place of this handler.
    """

    def pass_on(number: int, frame: FrameType | None) -> None:
        workers = [child.pid for child in multiprocessing.active_children() if child.pid]
        for worker in workers if number == signal.SIGTERM else []:
            os.kill(worker, number)
        if not workers:
            raise Stopped(number)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    os.environ[LAUNCHER] = str(os.getpid())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def job_folder(multirun: bool) -> Path:
    """A new folder for what Hydra writes, named by the time."""
    stamp = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{os.getpid()}"
    return work_folder() / (SWEEPS if multirun else "hydra") / stamp


def write_manifests(stamp: str, cells: Sequence[Cell]) -> None:
    """Note for each experiment which runs a sweep is made of, so that ``collect`` misses none."""
    for name in sorted({cell.entry.name for cell in cells}):
        jobs = [
            {"run": cell.id, "overrides": list(cell.overrides)}
            for cell in cells
            if cell.entry.name == name
        ]
        write_json(results_folder() / name / SWEEPS / f"{stamp}.json", {"jobs": jobs})


def stopped_by(folder: Path) -> int | None:
    """The signal that stopped workers of a sweep, or None."""
    path = folder / STOPPED
    return int(path.read_text(encoding="utf-8")) if path.is_file() else None


def statuses(folder: Path, cells: Sequence[Cell], multirun: bool) -> Iterator[JobStatus]:
    """What every job of the command line left behind."""
    for number, cell in enumerate(cells):
        path = (folder / str(number) if multirun else folder) / STATUS
        if path.is_file():
            left = json.loads(path.read_text(encoding="utf-8"))
            yield JobStatus(tuple(left["overrides"]), left["status"], left["reason"])
        else:
            yield JobStatus(cell.overrides, "missing", "ended without a word, or never started")
