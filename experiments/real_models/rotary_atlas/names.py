"""From what attention on a head has a name; attention to the first token is left out of it."""

PREVIOUS = 0.3  # to the token before
LOCAL = 0.5  # to the last NEAR tokens, the present one included
NEAR = 5
