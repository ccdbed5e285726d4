"""Published models against published numbers, where their weights are at hand; no download."""

PLACE = 10
