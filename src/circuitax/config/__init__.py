"""Floor 6: the border to Hydra."""
