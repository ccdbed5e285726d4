"""Attention patterns: detectors of heads, induction scores, and the terms of a score."""

from circuitax.lazy import lazy_modules

__getattr__, __dir__ = lazy_modules(__name__)
