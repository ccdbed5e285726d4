"""Templates of ``python -m experiments.new``; ``{name}`` is filled in."""
