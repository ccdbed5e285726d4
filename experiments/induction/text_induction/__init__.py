"""An induction head on real text: what it takes, what it is worth there, and what it costs."""

CHAPTER = "two layers"
PLACE = 50
