"""A worker process: it computes jobs of a sweep in turn, and exits when its memory has grown."""

import gc
import math
import os
import signal
import threading
from multiprocessing.connection import Connection, wait
from multiprocessing.process import parent_process
from pathlib import Path
from typing import NamedTuple

from hydra.core.utils import setup_globals

from circuitax.commands.job import LAUNCHER, compute_planned
from circuitax.config.catalogue import discover
from circuitax.config.planned_runs import plan
from circuitax.cores import one_device_a_core
from circuitax.lab.cheap_code import add_flags, quick_flags
from circuitax.lab.compilation import (
    Footprint,
    footprint,
    release_compiled_code,
    return_freed_memory,
)
from circuitax.lab.places import in_one_line
from circuitax.lab.stop import StopFlag, Stopped, receive
from circuitax.records.owner import this_process

# Growth since the first job's release at which compiled code is released again; jobs of one shape
# share theirs and stay below, and programs that shapes share are built again after a release. A
# worker that is larger than this after a release leaves, and another takes its place.
GROWTH = Footprint(maps=2000, megabytes=200.0)
# Scales whose runs in a suite are for comparison alone.
SMALL = ("tiny", "quick")


class Job(NamedTuple):
    """One job of a sweep or of the suite.

    Attributes:
        name: How messages call it.
        overrides: What was typed for it, with Hydra's own options.
        folder: Where it leaves its status, and Hydra its log.
        alone: Whether it has a process of its own, which a signal concerns alone.
    """

    name: str
    overrides: tuple[str, ...]
    folder: Path
    alone: bool = False


class Answer(NamedTuple):
    """A worker's answer after a job.

    Attributes:
        error: Why the job could not be started; empty when it has left its status in its folder.
        stopped: Number of the signal that told the worker to stop, or None.
        leaves: Whether the worker has ended with this job.
    """

    error: str
    stopped: int | None
    leaves: bool


def serve(jobs: Connection, output: Connection | None) -> None:
    """Compute the jobs of a connection, until it is closed or the worker exits.

    Args:
        jobs: Sends jobs, and takes answers.
        output: Takes what the worker prints; None for where its parent prints.
    """
    if output is not None:
        for stream in (1, 2):
            os.dup2(output.fileno(), stream)
        output.close()
    one_device_a_core()
    # The process that started this one ends it by other means, if it must.
    with StopFlag([signal.SIGTERM], announce=False, patience=math.inf) as stop:
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        receive([signal.SIGTERM])
        setup_globals()
        first: Footprint | None = None
        leaves = False
        while not leaves:
            try:
                job: Job = jobs.recv()
            except EOFError:
                return
            error = ""
            if job.alone:
                os.environ[LAUNCHER] = this_process()
            try:
                compute_job(job, stop)
            except Stopped:  # it has saved, as the answer says
                pass
            except Exception as raised:  # before the job's own code, which leaves word of its own
                error = in_one_line(raised)
            if first is None:
                release_compiled_code()
                gc.freeze()  # what is left stays, and no later release need look through it
                first = footprint()
            leaves = job.alone or stop.number is not None or not _small_again(first)
            jobs.send(Answer(error, stop.number, leaves))


def compute_job(job: Job, stop: StopFlag, *, alone: bool = False) -> None:
    """Plan one job, and compute it.

    Args:
        job: One job.
        stop: The flag of this process.
        alone: Whether a signal concerns this job alone; see ``job.compute``.

    Raises:
        ConfigError: If its configuration is refused.
        Stopped: When a signal asked for it.
    """
    _, (planned,) = plan(job.overrides, discover())
    # In a suite of small runs code is compiled for longer than it runs; one that measures time has
    # the code that is measured elsewhere.
    if job.alone and planned.settings.scale.name in SMALL and not planned.entry.alone:
        add_flags(quick_flags())
    compute_planned(planned, job.folder, stop=stop, alone=alone)


def _small_again(first: Footprint) -> bool:
    """Whether the worker is about as small as after its first job, after a release if needed."""
    # What costs nothing comes first: compilers leave a lot of free memory behind.
    for shrink in (return_freed_memory, release_compiled_code):
        if _is_near(footprint(), first):
            return True
        shrink()
    return _is_near(footprint(), first)


def _is_near(now: Footprint, first: Footprint) -> bool:
    maps, megabytes = now.maps - first.maps, now.megabytes - first.megabytes
    return maps <= GROWTH.maps and megabytes <= GROWTH.megabytes


def _stop_with_parent() -> None:
    """Save the state and end a worker whose parent was killed."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
