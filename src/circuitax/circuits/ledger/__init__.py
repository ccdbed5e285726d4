"""The largest paths to one logit, with a proof that none larger was left out."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
