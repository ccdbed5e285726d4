"""Few samples are memorised as polygons, many give features; the test loss bumps in between."""

CHAPTER = "superposition"
PLACE = 82
