"""What the entries in ``experiments/`` run: one module a command."""
