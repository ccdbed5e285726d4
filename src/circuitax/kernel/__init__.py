"""Floor 0: the mathematics of arrays, containers of weights, and the one forward pass."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
