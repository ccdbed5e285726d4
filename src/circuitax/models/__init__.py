"""Floor 1: thin Linen modules; weights leave as plain containers."""
