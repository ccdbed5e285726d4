"""Floor 5: one function a figure, drawn from a record alone. No JAX."""
