"""Floor 2: geometry and theory of superposition, and exact losses of toy models."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
