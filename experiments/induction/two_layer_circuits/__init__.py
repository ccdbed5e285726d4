"""Two layers: previous-token heads, induction heads, and the composition that joins them."""

CHAPTER = "two layers"
PLACE = 20
