"""The induction circuit on real text: composition, corner, repeats and worth of its paths."""

CHAPTER = "two layers"
PLACE = 60
