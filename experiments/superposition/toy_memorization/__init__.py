"""Few samples are memorised as polygons, many give features; the test loss bumps in between."""

PLACE = 170
