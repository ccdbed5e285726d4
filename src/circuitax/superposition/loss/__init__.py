"""The expected loss of a toy model, exactly, for every convention and activation."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
