"""The colours of all figures: eight that a colour-blind reader can tell apart, and two maps."""

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
YELLOW = "#E69F00"
SKY = "#56B4E9"
BLACK = "#000000"
GREY = "#8A8A8A"

# The order in which the lines of a panel use them.
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY)

DIVERGING = "RdBu_r"  # the caller centres it at zero
SEQUENTIAL = "viridis"
