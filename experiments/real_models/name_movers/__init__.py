"""Name movers of SmolLM2-135M: heads that bring the indirect object of a sentence to its end."""

PLACE = 35
