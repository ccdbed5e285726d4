"""Floor 5: common parts of figures; a figure is drawn from a record alone, without JAX."""
