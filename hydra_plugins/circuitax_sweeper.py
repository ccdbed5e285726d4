"""The sweeper of ``experiments.run``, where Hydra looks for plugins."""

from collections.abc import Sequence
from pathlib import Path

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class Checked(Sweeper):
    """Launches the jobs of a sweep that were composed and checked before Hydra was called.

    Hydra's basic sweeper would compose each of them once more before the first one starts.
    """

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Hydra's call before the sweep."""
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Sequence[JobReturn]:
        """Launch every job of the overrides, in the order of ``circuitax.config.plan``."""
        from circuitax.config.command_line import jobs  # Hydra reads this file for --help too

        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        return self.launcher.launch(jobs(arguments), initial_job_idx=0)
