"""Induction heads of SmolLM2-135M: found, removed, and asked what they read."""

CHAPTER = "real models"
PLACE = 30
