"""Arcs of attention over a text: which letters, which place, and how thick."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from circuitax.figures.palette import BLUE, ORANGE
from experiments.induction.shared.figure_arcs import arcs, clearest, lettered

TEXT = np.array([7, 3, 9, 5, 7, 3, 9, 5])


def heads() -> tuple[np.ndarray, np.ndarray]:
    """The previous-token head looks back with .9; the induction head finds one match of three."""
    previous, induction = np.zeros((8, 8)), np.zeros((8, 8))
    previous[np.arange(1, 8), np.arange(7)] = 0.9
    induction[4, 1], induction[5, 2], induction[6, 3] = 0.2, 0.8, 0.3
    induction[5, 0] = 0.1
    return previous, induction


def test_the_token_called_a_and_the_one_behind_it() -> None:
    assert "".join(lettered(TEXT, 1)) == "DABCDABC"
    with pytest.raises(ValueError, match="at most 85 different tokens: 86"):
        lettered(np.arange(86), 0)


def test_the_clearest_place_needs_both_heads() -> None:
    previous, induction = heads()
    assert clearest(previous, induction, 4) == 5
    previous[2, 1] = 0.0  # the token there has not looked back
    assert clearest(previous, induction, 4) == 6


def test_arcs_are_as_thick_as_the_attention() -> None:
    ax = Figure().add_subplot()
    arcs(ax, lettered(TEXT, 1), *heads(), 5)
    drawn = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    ends = {tuple(patch.get_path().vertices[[0, -1], 0].astype(int)): patch for patch in drawn}
    assert set(ends) == {(5, 2), (5, 0), (2, 1)}  # less than a twentieth is not drawn
    assert ends[5, 2].get_linewidth() == pytest.approx(8 * ends[5, 0].get_linewidth())
    colour = {place: patch.get_edgecolor() for place, patch in ends.items()}
    assert colour[5, 2] == colour[5, 0] != colour[2, 1]
    assert ends[2, 1].get_path().vertices[1, 1] < 0 < ends[5, 2].get_path().vertices[1, 1]
    words = " ".join(text.get_text() for text in ax.texts)
    assert "[A] → [B]" in words and "[B] has looked at [A]" in words
    assert {BLUE, ORANGE} == {text.get_color() for text in ax.texts if "[" in text.get_text()}
