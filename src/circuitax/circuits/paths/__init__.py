"""Paths whose sum is a transformer, and the contribution of each to the logits."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
