"""Correlated features prefer right angles, anticorrelated ones opposite directions."""

PLACE = 70
