"""Superposition makes a toy model easy to attack: vulnerability over features per dimension."""

CHAPTER = "superposition"
PLACE = 70
