"""Floor 2: random projections beside their exact laws, and how many directions fit."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
