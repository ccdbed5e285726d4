"""Floor 0: pure mathematics on arrays, weight containers, the one forward pass. jax only."""
