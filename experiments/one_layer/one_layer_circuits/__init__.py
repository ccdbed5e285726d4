"""One layer: skip-trigrams read from real-text weights, copying, positions, bugs, additivity."""

PLACE = 50
