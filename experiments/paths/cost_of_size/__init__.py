"""What grows and how fast: time and memory of six computations, and where one machine ends."""

CHAPTER = ""
PLACE = 10
