"""Models whose circuits are known, since they were written by hand."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
