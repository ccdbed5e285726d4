"""Floor 4: records, claims, provenance and estimates. No JAX."""
