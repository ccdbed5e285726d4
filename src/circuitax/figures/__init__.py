"""Floor 5: what figures share; a figure is drawn from a record alone, without JAX."""
