"""One-hot data: the exact potentials of regular k-gons, and which of them is lowest."""

PLACE = 90
