"""Superposition makes a toy model easy to attack: vulnerability over features per dimension."""

PLACE = 150
