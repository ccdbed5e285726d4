"""The family of `text_models` on English prose: what each layer is worth there, and more text."""

CHAPTER = "one layer"
PLACE = 22
