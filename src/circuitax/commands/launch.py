"""Jobs of a sweep, and the experiments of the suite in their order: as processes, or on Slurm."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

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


@dataclass(frozen=True)
class _Typed:
    """A command as a job of a cluster, queued again where its time ends; ``(status, seconds)``."""

    command: Sequence[str]
    log: Path

    def __call__(self) -> tuple[int, float]:
        began = time.monotonic()
        with self.log.open("ab") as file:
            status = subprocess.run(self.command, stdout=file, stderr=file).returncode
        # It saved what it had, for Slurm is about to end this job, and queues it again if it was
        # preempted. A result would say that it is done.
        if status in (128 + number for number in SIGNALS):
            signal.pause()
        return status, time.monotonic() - began

    def checkpoint(self) -> Any:
        """What submitit calls before a job's time limit."""
        import submitit  # what only a cluster needs

        return submitit.helpers.DelayedSubmission(self)


def submitted(
    after: Mapping[str, Sequence[str]],
    command: Callable[[str], Sequence[str]],
    settings: Mapping[str, Any],
    alone: Sequence[str],
    logs: Path,
) -> dict[str, Any]:
    """A job of Slurm for each name, behind those that it needs.

    Args:
        after: Names whose jobs must have ended before, well or not, by name; they stand before it.
        command: What is typed for a name.
        settings: Those of a launcher of Slurm; see `launcher_settings`.
        alone: Names that have a node for themselves.
        logs: Folder of a file for what each one prints.
    """
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    own = {"_target_", "submitit_folder", "max_num_timeout", "name"}
    common = {field.name for field in fields(BaseQueueConf)}
    given = {
        name if name in common else f"slurm_{name}": value
        for name, value in settings.items()
        if name not in own
    }
    jobs: dict[str, Any] = {}
    for name in after:
        needed = [jobs[other].job_id for other in after[name] if other in jobs]
        # An executor takes None for what it had before: each job has its own.
        executor = submitit.AutoExecutor(
            logs / "slurm", cluster="slurm", slurm_max_num_timeout=settings["max_num_timeout"]
        )
        executor.update_parameters(
            **given,
            name=name,
            slurm_dependency=f"afterany:{':'.join(needed)}" if needed else None,
            slurm_exclusive=True if name in alone else None,
        )
        log_of(name, logs).unlink(missing_ok=True)
        jobs[name] = executor.submit(_Typed(command(name), log_of(name, logs)))
    return jobs


def as_they_end(jobs: dict[str, Any], logs: Path, stop: StopFlag) -> Iterator[Ended]:
    """Each job of Slurm as it ends; once a signal has come, all others are told to."""
    left = dict(jobs)
    while left:
        if stop.number is not None:
            for job in left.values():
                job.cancel(check=False)
            return
        time.sleep(1.0)
        for name, job in list(left.items()):
            if job.done():
                del left[name]
                if error := job.exception():
                    # What follows its first ruler: a traceback, or what the job printed.
                    told = str(error).split("-" * 22 + "\n")[:2][-1].strip().rpartition("\n")[2]
                    with log_of(name, logs).open("a", encoding="utf-8") as file:
                        file.write(f"\njob {job.job_id} ({job.state}): {told}\n")
                yield Ended(name, *((1, 0.0) if error else job.result()))
