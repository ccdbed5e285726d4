"""Superposition in real models: tokens and neurons as directions, beside random directions."""

CHAPTER = "real models"
PLACE = 40
