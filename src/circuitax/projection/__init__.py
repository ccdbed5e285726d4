"""Floor 2: Johnson–Lindenstrauss projections, measured against their exact laws."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
