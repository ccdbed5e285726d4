"""The price of an induction head: tokens until one forms, against how much of the text repeats."""

CHAPTER = "two layers"
PLACE = 70
