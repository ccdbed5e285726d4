"""A hidden ReLU gives features a basis to align with: neurons of one feature, and of several."""

CHAPTER = "superposition"
PLACE = 50
