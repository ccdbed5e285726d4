"""The colours of lines differ, also in lightness or hue that a print keeps."""

from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb

from circuitax.figures.palette import (
    BLACK,
    COLOURS,
    DEPTH_COLOURS,
    GREY,
    KIND_COLOURS,
    LAYER_COLOURS,
    ORDER_COLOURS,
    PHASE_COLOURS,
    POLYTOPE_COLOURS,
    TEXT_COLOURS,
)


def test_no_two_colours_are_near() -> None:
    rgb = [np.array(to_rgb(colour)) for colour in (*COLOURS, BLACK, GREY)]
    assert min(np.linalg.norm(a - b) for a, b in combinations(rgb, 2)) > 0.25


def test_layers_orders_and_kinds_side_by_side_share_no_colour() -> None:
    shown = [*LAYER_COLOURS[:2], *ORDER_COLOURS[:3], *KIND_COLOURS]
    assert len(set(shown)) == len(shown)
    assert len(set(DEPTH_COLOURS)) == len(DEPTH_COLOURS)
    for table in (TEXT_COLOURS, PHASE_COLOURS, POLYTOPE_COLOURS):
        assert len(set(table.values())) == len(table)
