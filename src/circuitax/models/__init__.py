"""Floor 1: Flax modules that declare parameters, and files of weights, read and written."""
