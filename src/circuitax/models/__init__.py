"""Floor 1: Flax modules that declare parameters, and files of weights, read and written."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
