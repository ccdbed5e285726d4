"""Floor 3: one pure training step, scanned, run for whole ensembles, checkpointed."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
