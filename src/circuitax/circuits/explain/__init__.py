"""One prediction explained: paths, heads and tokens together."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
