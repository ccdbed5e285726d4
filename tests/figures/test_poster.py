"""The poster holds every panel, and none lies on another or on its text."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from circuitax.figures.poster import Panel, poster

LONG = "Heads that read what earlier heads wrote find an earlier text and continue it, " * 2


def figure(width: float, height: float, colour: str) -> Figure:
    made = Figure((width, height))
    made.patch.set_facecolor(colour)
    return made


def test_panels_and_texts_lie_apart() -> None:
    panels = [
        Panel(f"chapter {i}", LONG, f"note {i}", figure(3 + 2 * (i % 2), 2, colour))
        for i, colour in enumerate(("red", "lime", "blue", "cyan"))
    ]
    page = poster("A title", ["first", "second"], panels)
    assert tuple(page.get_size_inches()) == (23.4, 16.5)
    page.set_dpi(20)
    page.draw_without_rendering()
    boxes = [text.get_window_extent() for text in page.texts]
    boxes += [ax.images[0].get_window_extent() for ax in page.axes]
    assert len(boxes) == 2 + 3 * 4 + 4
    for i, box in enumerate(boxes):
        assert page.bbox.x0 <= box.x0 and box.x1 <= page.bbox.x1, i
        assert page.bbox.y0 <= box.y0 and box.y1 <= page.bbox.y1, i
        for j, other in enumerate(boxes[:i]):
            assert not box.overlaps(other), (i, j)
    shown = [
        tuple(np.median(np.asarray(ax.images[0].get_array()), axis=(0, 1))) for ax in page.axes
    ]
    assert shown == [(255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 255, 255)]
    wide = page.axes[1].images[0].get_array().shape
    assert wide[1] / wide[0] == pytest.approx(2.5), "a picture keeps its proportions"


def test_nothing_to_show_is_refused() -> None:
    with pytest.raises(ValueError, match="must hold at least one figure"):
        poster("A title", [], [])
