"""Jobs of a sweep on a Slurm cluster: each saves its state when Slurm stops it, and resumes.

The state that Slurm reports is not enough, since it is COMPLETED for a Python exception too. What
counts is the status that a job writes into its folder; Slurm is asked about jobs without one.
"""

import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import FrameType
from typing import Any

import submitit
from hydra.core.utils import setup_globals
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from omegaconf import DictConfig, OmegaConf
from submitit.core.utils import DelayedSubmission, FailedJobError
from submitit.slurm.slurm import SlurmInfoWatcher, SlurmJob

from circuitax.commands.status import STATUS
from circuitax.commands.worker import Job, compute_job
from circuitax.commands.workers import failed, jobs_of
from circuitax.lab.stop import SIGNALS, StopFlag, Stopped

# Slurm sends this one before the time limit, `signal_delay_s` earlier.
OUT_OF_TIME = signal.SIGUSR2
# A job that has reached no border between chunks by then is queued again as it is.
LATEST_SECONDS = 60
# At most so long until a job that died is noticed: sacct is asked about all jobs at once.
ASKED_EVERY_SECONDS = 30
LOOK_SECONDS = 1.0


def submit_jobs(
    config: DictConfig,
    overrides: Sequence[Sequence[str]],
    *,
    settings: Mapping[str, Any],
    first: int = 0,
) -> None:
    """Submit every job as part of one job array, and wait until all have ended.

    Args:
        config: Hydra's configuration of the sweep.
        overrides: What was typed for each job.
        settings: Of the launcher; names as in ``hydra_submitit_launcher``.
        first: Number of the first job.

    Raises:
        Stopped: When a signal came; the jobs are told to save and end.
    """
    jobs = jobs_of(config, overrides, first)
    try:
        executor = _executor(settings)
        with executor.batch():
            submitted = [executor.submit(ClusterJob(job)) for job in jobs]
    except (FailedJobError, RuntimeError) as error:  # no such partition, no Slurm here
        for job in jobs:
            failed(job, f"not submitted: {_one_line(error)}")
        return
    try:
        _wait(dict(zip(jobs, submitted, strict=True)))
    except Stopped:
        for one in submitted:
            one.cancel(check=False)
        raise


class ClusterJob:
    """One job of a sweep on a node, in a process of its own.

    Args:
        job: The job.
    """

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self) -> None:
        """Compute the job; at a signal save it and end, so that Slurm requeues it.

        What ends through ``sys.exit`` leaves no result, so that the launching process goes on
        waiting for a job that begins anew.
        """
        setup_globals()
        (self.job.folder / STATUS).unlink(missing_ok=True)
        requeue: Any = signal.getsignal(OUT_OF_TIME)  # submitit's, which counts how often
        signal.signal(signal.SIGALRM, lambda number, frame: requeue(OUT_OF_TIME, frame))
        try:
            with _Flag([*SIGNALS, OUT_OF_TIME]) as stop:
                compute_job(self.job, stop, alone=True)
        except Stopped as stopped:
            if stopped.number == OUT_OF_TIME:
                requeue(OUT_OF_TIME, None)
            sys.exit(stopped.exit_status)
        finally:
            signal.alarm(0)

    def checkpoint(self) -> DelayedSubmission:
        """The job to requeue at the time limit: the same one, which resumes."""
        return DelayedSubmission(self)


class _Flag(StopFlag):
    """A stop flag with bounded waiting after the time limit."""

    def _note(self, number: int, frame: FrameType | None) -> None:
        super()._note(number, frame)
        if number == OUT_OF_TIME:
            signal.alarm(LATEST_SECONDS)


def _executor(settings: Mapping[str, Any]) -> submitit.AutoExecutor:
    plain: dict[str, Any] = {
        name: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        for name, value in settings.items()
    }
    SlurmJob.watcher = SlurmInfoWatcher(delay_s=ASKED_EVERY_SECONDS)
    executor = submitit.AutoExecutor(
        folder=plain.pop("submitit_folder"),
        cluster="slurm",
        slurm_max_num_timeout=plain.pop("max_num_timeout"),
    )
    shared = {field.name for field in fields(BaseQueueConf)}
    executor.update_parameters(
        **{name if name in shared else f"slurm_{name}": value for name, value in plain.items()}
    )
    return executor


def _wait(waiting: dict[Job, submitit.Job[None]]) -> None:
    while waiting:
        for job, one in list(waiting.items()):
            if one.done():
                del waiting[job]
                if not (job.folder / STATUS).exists():
                    one.exception()  # waits for files that a slow disk shows late
                    failed(job, f"Slurm says {one.state}; its log: {one.paths.stderr}")
        time.sleep(LOOK_SECONDS)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
