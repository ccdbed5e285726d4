"""Order of the experiments of a suite, each in a worker process of its own."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from circuitax.commands.status import STATUS
from circuitax.commands.worker import Job
from circuitax.commands.workers import Pool
from circuitax.config.catalogue import ExperimentEntry, upstream_order
from circuitax.lab.leftovers import LOGS_DAYS, remove_older
from circuitax.lab.runs import run_folder, work_folder


class Result(NamedTuple):
    """Status, time and result folder of a finished experiment.

    Attributes:
        name: The experiment.
        status: As in ``commands.status.leave``.
        seconds: Time that it took, with the start of its process.
        run: Folder of its run, where that is finished.
    """

    name: str
    status: str
    seconds: float
    run: Path | None


class Suite:
    """Experiments in the order given, as many in parallel as a pool has workers.

    One that reads another's results waits until that one has ended, well or not. One that measures
    time (`Experiment.alone`) lets others pass until nothing else runs, and then
    everything waits for it. Each has a process of its own: memory that one does not give back is
    missed by no other.

    Args:
        names: Experiments, each after those that it requires.
        entries: All experiments by name.
        overrides: What is typed behind ``experiment=NAME`` for each.
        again: Experiments to compute again although they are finished.
        pool: The workers.
    """

    def __init__(
        self,
        names: Sequence[str],
        entries: Mapping[str, ExperimentEntry],
        overrides: Sequence[str],
        again: Sequence[str],
        pool: Pool,
    ) -> None:
        self.waiting = list(names)
        self._entries, self._pool = dict(entries), pool
        self._overrides, self._again = list(overrides), again
        self._began: dict[str, float] = {}

    def start(self) -> Iterator[str]:
        """Start all experiments whose turn has come; yields names, each at its start."""
        while name := self._next():
            self.waiting.remove(name)
            yield name
            self._began[name] = time.monotonic()
            parent = work_folder() / "reproduce"
            remove_older(parent, LOGS_DAYS)
            again = ["again=true"] if name in self._again else []
            typed = (f"experiment={name}", *self._overrides, *again)
            self._pool.start(Job(name, typed, parent / f"{name}_{time.time_ns()}", alone=True))

    def finished(self) -> list[Result]:
        """Wait for an experiment to end; returns all that have ended, none when nothing runs."""
        return [self._result(job) for job, _ in self._pool.ended()]

    def _result(self, job: Job) -> Result:
        seconds = time.monotonic() - self._began[job.name]
        path = job.folder / STATUS
        left = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        run = run_folder(job.name, left["run"]) if left.get("run") else None
        return Result(job.name, left.get("status", "missing"), seconds, run)

    def _next(self) -> str | None:
        """The first in order that can start now."""
        running = {job.name for job in self._pool.jobs}
        if not self._pool.has_room or any(self._entries[name].alone for name in running):
            return None
        unfinished = running | set(self.waiting)
        for name in self.waiting:
            if self._entries[name].alone and running:
                continue
            upstream = set(upstream_order(name, self._entries)) - {name}
            if not upstream & unfinished:
                return name
        return None
