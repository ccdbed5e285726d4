"""The smallest m that keeps all pairs, against log N and ε, with its constant and its sharpness."""

PLACE = 30
