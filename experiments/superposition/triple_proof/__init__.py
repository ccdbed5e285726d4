"""How far a proof of the phase diagram gets with three features in two dimensions."""

CHAPTER = "superposition"
PLACE = 23
