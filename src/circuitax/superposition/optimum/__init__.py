"""The least loss of a toy model, and its minimisers."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
