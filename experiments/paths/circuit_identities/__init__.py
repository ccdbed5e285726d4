"""Identities and nulls of circuits: paths, scores, spectra and ablations on random models."""

CHAPTER = "algebra"
PLACE = 10
