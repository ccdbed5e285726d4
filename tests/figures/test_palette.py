"""The colours of lines differ, also in lightness or hue that a print keeps."""

from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb

from circuitax.figures.palette import BLACK, COLOURS, GREY


def test_no_two_colours_are_near() -> None:
    rgb = [np.array(to_rgb(colour)) for colour in (*COLOURS, BLACK, GREY)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(rgb, 2)) > 0.25
