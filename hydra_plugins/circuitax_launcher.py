"""The launchers of ``experiments.run``, where Hydra looks for plugins."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class Sweep(Launcher):
    """Runs the jobs of a sweep elsewhere.

    Hydra hears that all completed: what came of a job is in its folder.
    """

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Hydra's call before the jobs are launched."""
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> list[JobReturn]:
        """Run every job, and wait for all."""
        setup_globals()
        self.compute(job_overrides, initial_job_idx)
        return [JobReturn(overrides=list(job), status=JobStatus.COMPLETED) for job in job_overrides]

    # Modules of commands are imported inside: Hydra reads this file for --help too.
    @abstractmethod
    def compute(self, job_overrides: Sequence[Sequence[str]], first: int) -> None:
        """Run the jobs, numbered from ``first`` on."""


class Workers(Sweep):
    """Worker processes on this machine; see ``circuitax.commands.workers``.

    Args:
        n_jobs: Workers at a time, at least 1, or -1 for one on each core.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        if not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
            raise ValueError(f"hydra.launcher.n_jobs={n_jobs} must be at least 1, or -1")
        self.n_jobs = n_jobs

    def compute(self, job_overrides: Sequence[Sequence[str]], first: int) -> None:
        """One job after another in each worker."""
        from circuitax.commands.workers import run_jobs

        run_jobs(self.config, job_overrides, n_workers=self.n_jobs, first=first)


class Cluster(Sweep):
    """A job array on a Slurm cluster; see ``circuitax.commands.cluster``.

    Args:
        **settings: Those of ``hydra_submitit_launcher``, which checks them.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def compute(self, job_overrides: Sequence[Sequence[str]], first: int) -> None:
        """Submit all jobs."""
        from circuitax.commands.cluster import submit_jobs  # needs the extra `slurm`

        submit_jobs(self.config, job_overrides, settings=self.settings, first=first)
