"""Induction heads appear in a phase change: two layers or smeared keys, never one plain layer."""

PLACE = 10
