"""Proof of the phase diagram of two features, and of where the pentagon overtakes two digons."""

PLACE = 40
