"""Floor 2: analyses of transformers as sums of paths: pure functions of models and runs."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
