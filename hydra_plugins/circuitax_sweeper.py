"""The sweeper of ``experiments.run``, where Hydra looks for plugins."""

from collections.abc import Sequence

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper


class Checked(BasicSweeper):
    """Hydra's basic sweeper for jobs that were composed and checked before Hydra was called.

    Hydra would compose each of them once more before the first one starts.
    """

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Hydra's call for each batch; see ``circuitax.config.cells.plan``."""
