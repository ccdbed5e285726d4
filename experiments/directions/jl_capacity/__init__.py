"""How many nearly orthogonal directions fit: random, greedy, optimised, learned, and the bounds."""

CHAPTER = "projection"
PLACE = 40
