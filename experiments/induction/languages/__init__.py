"""The same models on English prose: which results on code are results on language."""

CHAPTER = "two layers"
PLACE = 45
