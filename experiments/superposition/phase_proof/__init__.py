"""Proof of the phase diagram of two features, and of where the pentagon overtakes two digons."""

CHAPTER = "superposition"
PLACE = 22
