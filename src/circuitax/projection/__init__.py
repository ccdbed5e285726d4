"""Floor 2: Johnson–Lindenstrauss projections, measured."""
