"""Floor 6: what the entries in ``experiments/`` run, in one module for each command."""
