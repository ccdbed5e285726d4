"""Floor 4: records, claims, provenance and estimates, all of them without JAX."""
