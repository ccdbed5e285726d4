"""One layer: skip-trigrams read from real-text weights, copying, positions, bugs, additivity."""

CHAPTER = "one layer"
PLACE = 30
