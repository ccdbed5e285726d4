"""With all features in superposition loss falls like 1/m; without, like the tail of frequencies."""

CHAPTER = "superposition"
PLACE = 80
