"""Induction heads appear in a phase change: two layers or smeared keys, never one plain layer."""

CHAPTER = "two layers"
PLACE = 10
FLAGSHIP = "training"
