"""The launchers of ``experiments.run``, where Hydra looks for plugins."""

from collections.abc import Sequence
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class Workers(Launcher):
    """Runs the jobs of a sweep in worker processes; see ``circuitax.commands.workers``.

    Args:
        n_jobs: Workers at a time, at least 1, or -1 for one on each core.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        if not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
            raise ValueError(f"hydra.launcher.n_jobs={n_jobs} must be at least 1, or -1")
        self.n_jobs = n_jobs

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Hydra's call before the jobs are launched."""
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> list[JobReturn]:
        """Run every job. What came of it is in its folder: here, all count as completed."""
        from circuitax.commands.workers import run_jobs  # Hydra reads this file for --help too

        setup_globals()
        run_jobs(self.config, job_overrides, n_workers=self.n_jobs, first=initial_job_idx)
        return _completed(job_overrides)


class Cluster(Launcher):
    """Runs the jobs of a sweep on a Slurm cluster; see ``circuitax.commands.cluster``.

    Args:
        **settings: Those of ``hydra_submitit_launcher``, which checks them.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Hydra's call before the jobs are launched."""
        self.config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> list[JobReturn]:
        """Submit every job and wait for all. What came of it is in its folder, as above."""
        from circuitax.commands.cluster import submit_jobs  # needs the extra `slurm`

        setup_globals()
        submit_jobs(self.config, job_overrides, settings=self.settings, first=initial_job_idx)
        return _completed(job_overrides)


def _completed(job_overrides: Sequence[Sequence[str]]) -> list[JobReturn]:
    return [JobReturn(overrides=list(job), status=JobStatus.COMPLETED) for job in job_overrides]
