"""Identities and nulls of circuits: paths, scores, spectra and ablations on random models."""

PLACE = 10
