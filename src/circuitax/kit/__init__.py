"""Floor 6: what experiments are made of: checks of fields, arms, measured training, kept models."""
