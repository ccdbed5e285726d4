"""Floor 6: building blocks of experiments: field checks, arms, measured training, saved models."""
