"""A model without layers is the bigram table: Remark 21 of the project's source note, S0.

A one-layer direct path is not.
"""

CHAPTER = "one layer"
PLACE = 10
