"""Optima of small models proven by interval arithmetic."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
