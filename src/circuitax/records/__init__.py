"""Floor 4: records, claims, provenance and estimates, all of them without JAX."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
