"""Models that others trained, against the numbers and the paths that they published about them."""

CHAPTER = "real models"
PLACE = 20
