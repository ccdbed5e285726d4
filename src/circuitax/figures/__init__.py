"""Floor 5: common parts of figures; a figure is drawn from a record alone, without JAX."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
