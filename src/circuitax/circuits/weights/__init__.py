"""Heads read from weights alone: QK and OV circuits, composition, spectra, token tables."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
