"""Five features in two dimensions: trained networks beside the exact optimum, over sparsity."""

CHAPTER = "superposition"
PLACE = 10
