"""Neurons as a memory: which tokens each reads and writes, and whether its values come true."""

PLACE = 60
