"""Features move between levels while the loss falls; an octahedron forms in steps."""

CHAPTER = "superposition"
PLACE = 40
