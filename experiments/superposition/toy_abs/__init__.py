"""Computation in superposition: absolute values of more features than there are neurons for."""

CHAPTER = "superposition"
PLACE = 60
