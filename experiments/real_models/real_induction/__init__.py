"""Induction heads of SmolLM2-135M: found, removed, and asked what they read."""

PLACE = 30
