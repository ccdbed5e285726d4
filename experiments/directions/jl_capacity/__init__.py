"""How many nearly orthogonal directions fit: random, greedy, optimised, learned, and the bounds."""

PLACE = 40
