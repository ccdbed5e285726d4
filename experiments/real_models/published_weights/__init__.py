"""Published models against published numbers, where their weights are at hand; no download."""

CHAPTER = "real models"
PLACE = 10
