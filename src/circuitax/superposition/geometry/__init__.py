"""Features as vectors: dimensionality, polytopes, phases and dictionaries."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
