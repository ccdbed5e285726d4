"""Two layers: previous-token heads, induction heads, and the composition that joins them."""

PLACE = 40
