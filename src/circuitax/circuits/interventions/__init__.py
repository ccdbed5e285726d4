"""Causal tests: streams, heads and paths patched or ablated, and their gradients."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
