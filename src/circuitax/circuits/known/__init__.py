"""Hand-written models with known circuits."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
