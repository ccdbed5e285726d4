"""Evaluators of heads tried on heads of known strength: attention, logits and weights agree."""

CHAPTER = "two layers"
PLACE = 25
