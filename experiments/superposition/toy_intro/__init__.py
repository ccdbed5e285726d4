"""Five features in two dimensions: trained networks beside the exact optimum, over sparsity."""

PLACE = 10
