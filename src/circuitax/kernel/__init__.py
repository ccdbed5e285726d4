"""Floor 0: the mathematics of arrays, containers of weights, and the one forward pass."""
