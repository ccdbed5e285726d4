"""Floor 1: synthetic tasks and text; a batch is a pure function of a key and a step."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
