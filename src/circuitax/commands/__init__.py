"""Floor 6: the commands behind the entries in ``experiments/``, one module each."""
