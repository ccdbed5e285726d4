"""Floor 0: HTML by which objects show themselves in notebooks and pages; plain values, no JAX."""
