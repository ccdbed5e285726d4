"""Floor 2: superposition geometry and theory, as pure functions."""
