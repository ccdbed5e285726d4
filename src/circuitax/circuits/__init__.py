"""Floor 2: circuit analysis of weight containers, as pure functions."""
