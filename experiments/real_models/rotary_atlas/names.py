"""Thresholds of attention for the name of a head; attention to the first token is left out."""

PREVIOUS = 0.3  # to the token before
LOCAL = 0.5  # to the last NEAR tokens, the present one included
NEAR = 5
