"""The launcher of ``hydra/launcher=cores``: a process for each job of a sweep, N at a time."""

import sys
from collections.abc import Sequence

from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class Cores(Launcher):
    """Runs ``python -m experiments.run`` for each job; what came of one is in its run's folder.

    Args:
        n_jobs: Processes at a time, at least 1, or -1 for one on each core.
    """

    def __init__(self, n_jobs: int = -1) -> None:
        if not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
            raise ValueError(f"hydra.launcher.n_jobs={n_jobs} must be at least 1, or -1")
        self.n_jobs = n_jobs

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Hydra's call before the jobs are launched."""
        # Options of Hydra for the sweep as a whole are not for its jobs.
        typed: list[str] = list(config.hydra.overrides.hydra)
        self.kept = [text for text in typed if text.startswith("hydra.searchpath=")]

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run every job, and wait for all."""
        # Hydra reads this file for --help too.
        from circuitax.commands.launch import job_line, run_processes

        command = [sys.executable, "-m", "experiments.run"]
        lines = [job_line(i, len(job_overrides), job) for i, job in enumerate(job_overrides)]
        run_processes([[*command, *job, *self.kept] for job in job_overrides], self.n_jobs, lines)
        return [JobReturn(overrides=list(job), status=JobStatus.COMPLETED) for job in job_overrides]
