"""Worker processes under sweeps and suite: one that dies costs one job, and is replaced."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from omegaconf import DictConfig

from circuitax.commands.status import STATUS, leave
from circuitax.commands.suite_view import Lines
from circuitax.commands.worker import Answer, Job, serve
from circuitax.cores import n_cores
from circuitax.lab.stop import SIGNALS, StopFlag, withheld

# Between two looks at the stop flag.
SECONDS = 0.2
# Options of Hydra that concern the sweep as a whole, not one of its jobs.
_OF_THE_SWEEP = ("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweep", "hydra.mode")


class Worker(NamedTuple):
    """A worker process, the connection to it, and the thread that copies its output, if any."""

    process: BaseProcess
    connection: Connection
    copying: threading.Thread | None = None


class Pool:
    """Worker processes that take one job after another; after a signal they save and end.

    One that ends without an answer (a crash of compiled code, or a kill because memory ran out) has
    failed the job it had; another worker takes the next. After a block that ends with an error,
    such as a second signal, those that still compute are killed.

    Args:
        n_workers: Workers at a time, at least 1.
        stop: The flag that a signal sets.
        view: Shows what jobs with processes of their own print; plain lines by default.
    """

    def __init__(self, n_workers: int, stop: StopFlag, view: Lines | None = None) -> None:
        self.n_workers, self._stop = n_workers, stop
        self._view = Lines(named=n_workers > 1) if view is None else view
        if n_workers > 1:  # on one GPU: no worker takes most of its memory at the start
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        self._busy: dict[Worker, Job] = {}
        self._idle: list[Worker] = []
        self._told: set[Worker] = set()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._busy:
            worker.process.kill()
        for worker in self._idle:
            worker.connection.close()
        for worker in [*self._busy, *self._idle]:
            worker.process.join()

    @property
    def jobs(self) -> list[Job]:
        """The jobs at work."""
        return list(self._busy.values())

    @property
    def has_room(self) -> bool:
        """Whether another job can start: a worker is free, and no signal has come."""
        return len(self._busy) < self.n_workers and self._stop.number is None

    def start(self, job: Job) -> None:
        """Give a job to an idle worker, or to a new one."""
        # One with a process of its own is told apart by its name, where others run beside it.
        show = partial(self._view.line, job.name) if job.alone and self._view.named else None
        worker = self._idle.pop() if self._idle and not job.alone else start_worker(show)
        self._busy[worker] = job
        if job.alone:
            self._view.began(job.name, job.folder)
        with suppress(OSError):  # it has ended, as the answer will say
            worker.connection.send(job)

    def ended(self) -> list[tuple[Job, Answer]]:
        """Wait for a job to end; returns all that have ended, none when none is at work."""
        found: list[tuple[Job, Answer]] = []
        while self._busy and not found:
            if self._stop.number is not None:
                self.end_all()
            ready = wait([worker.connection for worker in self._busy], timeout=SECONDS)
            self._view.tick()
            for worker in [worker for worker in self._busy if worker.connection in ready]:
                job, answer = self._busy.pop(worker), _answer(worker)
                if answer.leaves:
                    worker.process.join()
                    worker.connection.close()
                    if worker.copying is not None:
                        worker.copying.join()
                else:
                    self._idle.append(worker)
                if answer.error:
                    failed(job, answer.error)
                found.append((job, answer))
        return found

    def end_all(self) -> None:
        """Signal every busy worker to save and end, once."""
        for worker in [worker for worker in self._busy if worker not in self._told]:
            self._told.add(worker)
            worker.process.terminate()


def run_jobs(
    config: DictConfig, overrides: Sequence[Sequence[str]], *, n_workers: int, first: int = 0
) -> None:
    """Compute every job of a sweep; its outcome is in the job's folder.

    Args:
        config: Hydra's configuration of the sweep.
        overrides: What was typed for each job.
        n_workers: Workers at a time, or -1 for one on each core.
        first: Number of the first job.

    Raises:
        Stopped: When a signal came, after all workers have saved and ended.
    """
    waiting = deque(jobs_of(config, overrides, first))
    most = min(len(waiting), n_cores() if n_workers == -1 else n_workers)
    with StopFlag() as stop:
        with Pool(most, stop) as pool:
            while True:
                while waiting and pool.has_room:
                    pool.start(waiting.popleft())
                if not (ended := pool.ended()):
                    break
                for _, answer in ended:
                    if answer.stopped is not None and stop.number is None:
                        stop.number = answer.stopped  # told to stop on its own: meant the sweep
        stop.raise_if_set()


def jobs_of(config: DictConfig, overrides: Sequence[Sequence[str]], first: int) -> list[Job]:
    """The jobs of a sweep, each with a numbered folder below that of the sweep.

    Args:
        config: Hydra's configuration of the sweep.
        overrides: What was typed for each job.
        first: Number of the first job.
    """
    kept = [o for o in config.hydra.overrides.hydra if not o.lstrip("+~").startswith(_OF_THE_SWEEP)]
    folder = Path(config.hydra.sweep.dir)
    return [
        Job(f"job {number}", (*typed, *kept), folder / str(number))
        for number, typed in enumerate(overrides, first)
    ]


def start_worker(show: Callable[[str], None] | None = None) -> Worker:
    """A new worker process.

    Args:
        show: Takes each line of its output; None for where this process prints.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    shown, output = context.Pipe(duplex=False) if show else (None, None)
    resource_tracker.ensure_running()  # which would ask for the signals that are withheld below
    process = context.Process(target=serve, args=(there, output))
    # A terminal's Ctrl-C reaches this process alone, which passes every signal on as SIGTERM.
    with withheld(SIGNALS):
        process.start()
    there.close()  # so that the end of the process ends the connection
    if show is None or shown is None or output is None:
        return Worker(process, here)
    output.close()
    copying = threading.Thread(target=_copy, args=(shown, show), daemon=True)
    copying.start()
    return Worker(process, here, copying)


def _copy(shown: Connection, show: Callable[[str], None]) -> None:
    """Forward output lines."""
    with shown, open(shown.fileno(), "rb", closefd=False) as lines:
        for line in lines:
            show(line.decode(errors="replace").rstrip("\n"))


def _answer(worker: Worker) -> Answer:
    try:
        answer: Answer = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join()
        return Answer(_ending(worker.process.exitcode), None, True)
    return answer


def _ending(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"its process ended with exit status {exitcode}"
    number = -exitcode
    reason = ", as when memory runs out" if number == signal.SIGKILL else ""
    return f"its process was ended by signal {number} ({signal.Signals(number).name}){reason}"


def failed(job: Job, reason: str) -> None:
    """Report why a job failed and write it into its folder, unless the job wrote a status.

    Args:
        job: The job.
        reason: One line.
    """
    path = job.folder / STATUS
    if not path.exists():
        print(f"error: {job.name}: {reason}", file=sys.stderr, flush=True)
        typed = [text for text in job.overrides if not text.lstrip("+~").startswith("hydra")]
        with suppress(OSError):  # of a full disk: the summary will miss this word
            leave(path, typed, "failed", reason)
