"""Texts from which ``python -m experiments.new`` makes an experiment; ``{name}`` is filled in."""
