"""Experiments in sequence or in parallel, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from circuitax.commands.status import STATUS
from circuitax.config.catalogue import Entry, upstream_order
from circuitax.config.command_line import quoted
from circuitax.lab.leftovers import LOGS_DAYS, remove_older
from circuitax.lab.runs import run_folder, work_folder
from circuitax.lab.stop import StopFlag, withheld

# Seconds between two looks at what runs.
LOOK_SECONDS = 0.2


class Result(NamedTuple):
    """Result of one experiment: its exit status, and the status its process wrote."""

    name: str
    status: int
    seconds: float
    run: Path | None
    left: str


class Suite:
    """Experiments in the order given, as many in parallel as there are jobs.

    One that reads another's results waits until that one has ended, well or not. One that measures
    time (`Experiment.alone`) lets others pass until nothing else runs, and then
    everything waits for it. After a signal nothing is started, and what runs is told to stop.

    Args:
        names: Experiments, each after those that it requires.
        entries: All experiments by name.
        overrides: What is typed behind ``experiment=NAME`` for each.
        again: Experiments to compute again although they are finished.
        jobs: Processes side by side, at least 1. With one alone its output is passed on as it is,
            with more each line begins with the name of its experiment.
        stop: The flag that a signal sets.
    """

    def __init__(
        self,
        names: Sequence[str],
        entries: Mapping[str, Entry],
        overrides: Sequence[str],
        again: Sequence[str],
        jobs: int,
        stop: StopFlag,
    ) -> None:
        self.waiting = list(names)
        self._entries, self._jobs, self._stop = dict(entries), jobs, stop
        self._overrides, self._again = list(overrides), again
        self._running: list[_Child] = []

    def start(self) -> Iterator[str]:
        """Start all experiments whose turn has come; yields names, each at its start."""
        while name := self._next():
            self.waiting.remove(name)
            yield name
            overrides = self._overrides + (["again=true"] if name in self._again else [])
            self._running.append(_Child(name, overrides, named=self._jobs > 1))

    def finished(self) -> list[Result]:
        """Wait for an experiment to end; returns all that have ended, none when nothing runs."""
        try:
            while self._running:
                ended = [child for child in self._running if child.has_ended(self._pause)]
                if self._stop.number is not None:
                    for child in self._running:
                        child.tell()
                if ended:
                    self._running = [child for child in self._running if child not in ended]
                    return [child.result() for child in ended]
        except BaseException:  # a second signal: at once
            for child in self._running:
                child.process.kill()
            raise
        return []

    def end(self) -> None:
        """Stop all running experiments, and wait until they have saved."""
        for child in self._running:
            child.tell()
        for child in self._running:
            child.process.wait()

    @property
    def _pause(self) -> float:
        return LOOK_SECONDS / len(self._running)

    def _next(self) -> str | None:
        """The first in order that can start now."""
        if self._stop.number is not None or len(self._running) >= self._jobs:
            return None
        running = {child.name for child in self._running}
        unfinished = running | set(self.waiting)
        if any(self._entries[name].alone for name in running):
            return None
        for name in self.waiting:
            if self._entries[name].alone and running:
                continue
            upstream = set(upstream_order(name, self._entries)) - {name}
            if not upstream & unfinished:
                return name
        return None


class _Child:
    """The process of a running experiment."""

    def __init__(self, name: str, overrides: Sequence[str], *, named: bool) -> None:
        # A process of its own: a crash, or memory not given back, does not reach the others.
        parent = work_folder() / "reproduce"
        remove_older(parent, LOGS_DAYS)
        self.name, self._folder = name, parent / f"{name}_{time.time_ns()}"
        command = [sys.executable, "-m", "experiments.run", f"experiment={name}", *overrides]
        command.append(quoted("hydra.run.dir", str(self._folder)))
        self._began, self._told, self._status = time.monotonic(), False, 0
        self._copying: threading.Thread | None = None
        # A terminal's Ctrl-C reaches this process alone, which passes every signal on as SIGTERM.
        with withheld([signal.SIGINT]):
            if named:
                # Two processes on one GPU: none takes most of its memory at the start.
                shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
                self.process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=shared
                )
                told = self.process.stdout or ()
                self._copying = threading.Thread(target=_copy_named, args=(told, name), daemon=True)
                self._copying.start()
            else:
                self.process = subprocess.Popen(command)

    def has_ended(self, seconds: float) -> bool:
        """Whether the process has ended, or does within some seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._status = self.process.wait(timeout=seconds)
            return True
        return False

    def tell(self) -> None:
        """Send the stop signal, once."""
        if not self._told:
            self.process.terminate()
            self._told = True

    def result(self) -> Result:
        """Exit status, run time and result folder of the finished experiment."""
        seconds = time.monotonic() - self._began
        if self._copying is not None:
            self._copying.join()
        path = self._folder / STATUS
        left = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        where = run_folder(self.name, left["run"]) if left.get("run") else None
        return Result(self.name, self._status, seconds, where, left.get("status", ""))


def _copy_named(lines: Iterable[bytes], name: str) -> None:
    """Forward output lines, each prefixed by the name of its experiment."""
    for line in lines:
        text = line.decode(errors="replace").rstrip("\n")
        print(f"{name}: {text}", flush=True)
