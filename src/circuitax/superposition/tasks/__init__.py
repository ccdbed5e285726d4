"""Theory of further tasks: correlated, adversarial and one-hot features."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
