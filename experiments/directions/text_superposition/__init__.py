"""Superposition in real models: tokens and neurons as directions, beside random directions."""

PLACE = 60
