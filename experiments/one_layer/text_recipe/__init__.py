"""The recipe of the text models, measured: each depth at the best of several optimizers."""

PLACE = 30
