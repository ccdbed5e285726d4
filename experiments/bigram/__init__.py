"""Remark 21 of S0, the project's source note: a model without layers is the bigram table.

A one-layer direct path is not.
"""

CHAPTER = "one layer"
PLACE = 10
