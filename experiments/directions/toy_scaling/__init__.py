"""In superposition loss falls faster with width than when rare features are ignored."""

PLACE = 50
