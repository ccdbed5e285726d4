"""The title of a figure stands above it, in as many lines as it needs, and moves no panel."""

import io

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from circuitax.figures.picture import add_title
from circuitax.figures.style import HEADLINE, headline, new_figure, styled

DPI = 150  # at which the style lays figures out
LONG = "Heads that read what earlier heads wrote find an earlier text and continue it, as said"


def pixels(figure: Figure, message: str) -> np.ndarray:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, bbox_inches=add_title(figure, message))
    return np.asarray(Image.open(buffer).convert("L"))


@styled
def dots(width: float = 3.25) -> Figure:
    figure, axes = new_figure(width=width)
    axes[0, 0].plot([1, 2, 4])
    figure.legend(["a line"], loc="outside upper center")
    figure.supxlabel("below")
    return figure


def test_panels_stay_and_the_strip_holds_all_words() -> None:
    plain, short, long = (pixels(dots(), text) for text in ("", "Dots rise", LONG))
    strips = [len(picture) - len(plain) for picture in (short, long)]
    assert plain.shape[1] == short.shape[1] == long.shape[1] == 487
    for picture, strip in zip((short, long), strips, strict=True):
        # Hinting may move the edge of a letter by a shade.
        assert np.abs(picture[strip:].astype(int) - plain).mean() < 0.2
        ink = picture[:strip] < 128
        assert ink.any() and not ink[:, -3:].any() and not ink[:, :3].any()
        assert not ink[0].any() and not ink[-1].any(), "no line is cut"
    assert strips[1] > 1.5 * strips[0], "two lines or more"
    wide = pixels(dots(6.75), LONG)
    assert len(wide) - len(pixels(dots(6.75), "")) == strips[0]


def test_a_figure_with_a_headline_keeps_that_alone() -> None:
    figure = dots()
    headline(figure, "What the record says")
    before = len(figure.texts)
    assert tuple(add_title(figure, "What the docstring says").bounds) == (0, 0, 3.25, 2.2)
    assert len(figure.texts) == before


def test_a_long_headline_takes_lines_that_fit() -> None:
    figure = dots()
    headline(figure, LONG)
    figure.draw_without_rendering()
    (line,) = (text for text in figure.texts if text.get_gid() == HEADLINE)
    assert line.get_text().replace("\n", " ") == LONG and "\n" in line.get_text()
    assert line.get_window_extent().x1 <= figure.bbox.x1
