"""The jobs of a sweep on worker processes: one that dies costs its job, and is replaced."""

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from circuitax.commands.status import STATUS, leave
from circuitax.commands.worker import Answer, Job, serve
from circuitax.config.command_line import quoted
from circuitax.lab.cores import n_cores
from circuitax.lab.stop import SIGNALS, StopFlag, withheld

# Between two looks at the stop flag.
SECONDS = 0.2
# Options of Hydra that concern the sweep as a whole, not one of its jobs.
_OF_THE_SWEEP = ("hydra/launcher", "hydra.launcher", "hydra/sweeper", "hydra.sweep", "hydra.mode")


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


def run_jobs(
    config: DictConfig, overrides: Sequence[Sequence[str]], *, n_workers: int, first: int = 0
) -> None:
    """Compute every job, each in a worker process; what came of it is in the job's folder.

    A worker takes one job after another. One that ends without an answer (a crash of compiled code,
    or a kill because memory ran out) has failed the job it had; another worker takes the next.

    Args:
        config: Hydra's configuration of the sweep.
        overrides: What was typed for each job.
        n_workers: Workers at a time, or -1 for one on each core.
        first: Number of the first job.

    Raises:
        Stopped: When a signal came, after all workers have saved and ended.
    """
    folder = Path(config.hydra.sweep.dir)
    waiting = deque(jobs_of(config, overrides, first))
    most = min(len(waiting), n_cores() if n_workers == -1 else n_workers)
    busy: dict[_Worker, Job] = {}
    idle: list[_Worker] = []
    told = False
    with StopFlag() as stop:
        try:
            while busy or (waiting and stop.number is None):
                while waiting and len(busy) < most and stop.number is None:
                    worker = idle.pop() if idle else _start()
                    busy[worker] = waiting.popleft()
                    _send(worker, busy[worker])
                if stop.number is not None and not told:
                    told = True
                    for worker in busy:
                        if worker.process.pid is not None and worker.process.is_alive():
                            os.kill(worker.process.pid, signal.SIGTERM)
                ready = wait([worker.connection for worker in busy], timeout=SECONDS)
                for worker in [worker for worker in busy if worker.connection in ready]:
                    job = busy.pop(worker)
                    answer = _answer(worker)
                    if answer.error:
                        failed(folder, job, answer.error)
                    if answer.stopped is not None and stop.number is None:
                        stop.number = answer.stopped  # told to stop on its own: meant the sweep
                    if answer.leaves:
                        worker.process.join()
                        worker.connection.close()
                    else:
                        idle.append(worker)
        except BaseException:  # a second signal: at once
            for worker in busy:
                worker.process.kill()
            raise
        finally:
            for worker in idle:
                worker.connection.close()
            for worker in [*busy, *idle]:
                worker.process.join()
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
        Job(number, tuple(typed), (*kept, quoted("hydra.run.dir", str(folder / str(number)))))
        for number, typed in enumerate(overrides, first)
    ]


def _start() -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    resource_tracker.ensure_running()  # which would ask for the signals that are withheld below
    process = context.Process(target=serve, args=(there,))
    with withheld(SIGNALS):
        process.start()
    there.close()  # so that the end of the process ends the connection
    return _Worker(process, here)


def _send(worker: _Worker, job: Job) -> None:
    try:
        worker.connection.send(job)
    except OSError:  # it has ended, as the answer will say
        return


def _answer(worker: _Worker) -> Answer:
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


def failed(folder: Path, job: Job, reason: str) -> None:
    """Say why a job failed and write it into its folder, unless the job has written a status.

    Args:
        folder: Of the sweep.
        job: The job.
        reason: One line.
    """
    path = folder / str(job.number) / STATUS
    if not path.exists():
        print(f"error: job {job.number}: {reason}", file=sys.stderr, flush=True)
        with suppress(OSError):  # of a full disk: the summary will miss this word
            leave(path, job.overrides, "failed", reason)
