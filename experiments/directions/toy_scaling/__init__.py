"""In superposition loss falls faster with width than when rare features are ignored."""

CHAPTER = "superposition"
PLACE = 80
