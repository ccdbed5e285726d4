"""The least loss that a toy model can have, and where it is."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
