"""One-hot data: the exact potentials of regular k-gons, and which of them is lowest."""

CHAPTER = "superposition"
PLACE = 30
