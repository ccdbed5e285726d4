"""Processes, N at a time: the jobs of a sweep, and the experiments of the suite in their order."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from circuitax.cores import n_cores
from circuitax.lab.loop import SIGNALS, StopFlag

LOOK_SECONDS = 0.05  # between two looks at what runs


class Ended(NamedTuple):
    """A process that ended: its name, exit status (negative for a signal), and seconds."""

    name: str
    status: int
    seconds: float


def run_processes(commands: Sequence[Sequence[str]], n_jobs: int, lines: Sequence[str]) -> None:
    """Run every command, ``n_jobs`` at a time, -1 for one on each core; raises `Stopped`.

    ``lines`` are what is printed as each begins.
    """

    def command(name: str) -> Sequence[str]:
        print(lines[int(name)], file=sys.stderr, flush=True)
        return commands[int(name)]

    with StopFlag() as stop:
        names = map(str, range(len(commands)))
        for _ in in_order(dict.fromkeys(names, ()), command, n_jobs, stop):
            pass
        stop.raise_if_set()


def job_line(number: int, total: int, overrides: Sequence[str]) -> str:
    """``"[7/12] experiment=toy_intro seed=3"``, for a job of a sweep that begins."""
    told = [text for text in overrides if not text.startswith("hydra")]
    return f"[{number + 1}/{total}] {' '.join(told)}"


def in_order(
    after: Mapping[str, Sequence[str]],
    command: Callable[[str], Sequence[str]],
    n_jobs: int,
    stop: StopFlag,
    alone: Sequence[str] = (),
    logs: Path | None = None,
) -> Iterator[Ended]:
    """Each process as it ends, ``n_jobs`` at a time, in the order of names as far as it goes.

    Once a signal has come, what runs is told to save and end, and nothing else starts.

    Args:
        after: Names that must have ended before, well or not, by name.
        command: What is typed for a name.
        n_jobs: Processes at a time, or -1 for one on each core.
        stop: Flag that a signal sets.
        alone: Names beside which nothing else may run.
        logs: Folder of a file for what each one prints; this terminal where None.
    """
    most = n_cores() if n_jobs == -1 else n_jobs
    order = TopologicalSorter({name: [x for x in xs if x in after] for name, xs in after.items()})
    order.prepare()
    rank = {name: i for i, name in enumerate(after)}
    ready: list[str] = []
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    # One GPU has room for several, where no process takes most of it at its start.
    some = {} if most == 1 else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    told = False
    while order.is_active():
        ready = sorted([*ready, *order.get_ready()], key=rank.__getitem__)
        for name in list(ready):
            free = len(running) < most and not set(alone) & set(running)
            if stop.number is None and free and not (name in alone and running):
                ready.remove(name)
                # In a group of its own: a terminal's Ctrl-C reaches this process alone.
                with log_of(name, logs).open("wb") if logs else nullcontext() as file:
                    process = subprocess.Popen(
                        command(name),
                        env={**some, **os.environ},
                        stdout=file,
                        stderr=file,
                        start_new_session=True,
                    )
                running[name] = process, time.monotonic()
        if stop.number is not None and not told:
            told = True
            for process, _ in running.values():
                process.send_signal(SIGNALS[1])
        if not running:
            return
        time.sleep(LOOK_SECONDS)
        for name, (process, began) in list(running.items()):
            if (status := process.poll()) is not None:
                del running[name]
                order.done(name)
                yield Ended(name, status, time.monotonic() - began)


def log_of(name: str, logs: Path) -> Path:
    """The file of what a process printed."""
    logs.mkdir(parents=True, exist_ok=True)
    return logs / f"{name}.txt"
