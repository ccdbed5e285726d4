"""Paths multiply with depth; the loss comes from the shortest ones: counts, terms, nats, proof."""

CHAPTER = "algebra"
PLACE = 20
