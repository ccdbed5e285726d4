"""The recipe of the text models, measured: each depth at the best of several optimizers."""

CHAPTER = "one layer"
PLACE = 25
