"""Features that occur together lie side by side, where what one adds to the other is right."""

CHAPTER = "superposition"
PLACE = 33
