"""Neurons as a memory: which tokens each reads and writes, and whether its values come true."""

CHAPTER = "one layer"
PLACE = 40
