"""The family of `text_models` on English prose: what each layer is worth there, and more text."""

PLACE = 20
