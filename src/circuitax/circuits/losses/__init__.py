"""Next-token losses: by position, by order of paths, by head, and along training."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
