"""The colours of all figures: eight, distinct for colour-blind readers, and two maps."""

BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
PINK = "#CC79A7"
YELLOW = "#E69F00"
SKY = "#56B4E9"
BLACK = "#000000"
GREY = "#8A8A8A"

EVERY = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK, GREY)

# The order in which the lines of a panel use them.
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY)

# What returns in many figures has one colour in all of them. There are more things than colours:
# tables whose things stand side by side have none in common. A control, chance or what random
# directions give is grey, and what a paper has printed is black.
LAYER_COLOURS = (BLUE, ORANGE, GREEN, PINK)  # heads of each layer: previous-token 0, induction 1
ORDER_COLOURS = (GREY, SKY, YELLOW, GREEN)
KIND_COLOURS = (GREEN, PINK, BLACK)  # Q, K, V
DEPTH_COLOURS = (BLUE, GREY, ORANGE, SKY, GREEN, YELLOW, PINK)  # models of 0, 1, 2, ... layers
TEXT_COLOURS = {"python": SKY, "english": PINK, "random": GREY}
PHASE_COLOURS = {"ignored": "#FFFFFF", "dedicated": BLUE, "superposed": ORANGE}
POLYTOPE_COLOURS = {
    "dedicated": BLACK,
    "digon": BLUE,
    "triangle": YELLOW,
    "tetrahedron": PINK,
    "pentagon": GREEN,
    "square antiprism": ORANGE,
    "hexagon": SKY,
}
OPTIMUM = GREEN  # the exact one, beside trained networks

DIVERGING = "RdBu_r"  # the caller centres it at zero
SEQUENTIAL = "viridis"
