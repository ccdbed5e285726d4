"""Skip-trigrams of one-layer models: additive heads, and the bugs that follow from them."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
