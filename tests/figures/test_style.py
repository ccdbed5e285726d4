"""Figures look alike: a grid of axes, and texts in the style of the house."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from circuitax.figures.palette import BLUE, ORANGE
from circuitax.figures.picture import wrapped
from circuitax.figures.style import (
    letter_panels,
    new_figure,
    rename,
    restyled,
    sample_note,
    styled,
)


@styled
def draw(seed: int):
    figure, axes = new_figure(1, 2, height=1.5)
    axes[0, 0].plot(np.random.default_rng(seed).normal(size=20))
    axes[0, 1].imshow(np.eye(3), rasterized=True)
    letter_panels(axes.flat)
    return figure


def test_axes_are_always_a_grid() -> None:
    for shape in [(1, 1), (1, 3), (2, 2)]:
        _, axes = new_figure(*shape)
        assert axes.shape == shape


def test_the_style_holds_for_texts_made_after_the_axes() -> None:
    figure = draw(0)
    assert figure.axes[0].annotate("late", (0, 0)).get_fontsize() != 8  # outside: the default
    sizes = []

    @styled
    def inside() -> None:
        _, axes = new_figure()
        sizes.append(axes[0, 0].annotate("in style", (0, 0)).get_fontsize())

    inside()
    assert sizes == [8]


@styled
def test_a_sample_note_stands_below_all_that_belongs_to_a_panel() -> None:
    figure, axes = new_figure(height=1.5)
    axes[0, 0].set(xlabel="steps")
    sample_note(figure, "mean of 8 seeds")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "mean of 8 seeds"
    below = legend.get_title().get_window_extent()
    assert 0 <= below.y0 < below.y1 <= axes[0, 0].xaxis.label.get_window_extent().y0
    assert below.x1 <= figure.bbox.x1


def test_a_style_of_the_users_recolours_what_the_palette_has_and_texts_are_renamed(
    tmp_path: Path,
) -> None:
    style = tmp_path / "my.mplstyle"
    style.write_text("axes.prop_cycle: cycler('color', ['112233'])\nfont.size: 5\n")
    with restyled(style) as recolour:
        figure, axes = new_figure()
        (line,) = axes[0, 0].plot([0, 1], color=BLUE, label="old")
        other = axes[0, 0].scatter([0, 1], [0, 1], color=[BLUE, ORANGE], alpha=0.5)
        recolour([figure])
        assert matplotlib.rcParams["font.size"] == 5
    assert to_hex(line.get_color()) == "#112233"
    assert [to_hex(each, keep_alpha=True) for each in other.get_facecolor()] == [
        "#11223380",
        f"{ORANGE.lower()}80",
    ]
    axes[0, 0].set_title("old")
    rename([figure], {"old": "new"}, ())
    assert axes[0, 0].get_title() == "new"
    with pytest.raises(ValueError, match=r"labels: 'nw' stands in no figure \(did you mean 'new'"):
        rename([figure], {"nw": "x"}, ())


TEXTS = (
    "Without heads the score is gone (orange), in 3 of 8 seeds",
    "Évitons j, Q and @: ½ of 10⁻³",
    "WᵀW - λ² = 0.75",
)


def ink(text: str, size: int) -> float:
    """Inches from the leftmost to the rightmost point of the letters, by their curves."""
    path = TextPath((0, 0), text, size=size, prop=FontProperties(weight="bold"))
    return float(path.get_extents().width) / 72


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [8, 11])
def test_a_line_breaks_where_its_ink_exceeds_the_width(text: str, size: int) -> None:
    whole = ink(text, size)
    assert wrapped(text, whole + 1e-6, size) == [text]
    first, last = wrapped(text, whole - 1e-6, size)
    assert [first, last] == text.rsplit(maxsplit=1)


def test_a_word_longer_than_a_line_stands_alone() -> None:
    assert wrapped("of interference everywhere", 0.2, 8) == ["of", "interference", "everywhere"]
