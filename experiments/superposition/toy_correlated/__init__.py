"""Correlated features prefer right angles, anticorrelated ones opposite directions."""

CHAPTER = "superposition"
PLACE = 26
