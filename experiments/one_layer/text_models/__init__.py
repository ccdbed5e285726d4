"""Transformers of zero, one and two layers on real text: what each layer is worth, in nats."""

CHAPTER = "one layer"
PLACE = 20
