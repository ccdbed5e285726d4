"""Paths of which a transformer is the sum, and what each of them writes into the logits."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
