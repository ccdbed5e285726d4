"""What marks draw is what they were given: lines, bands, bars and dots, read from the artists."""

from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from circuitax.figures.marks import (
    interval_bars,
    interval_lengths,
    legend_above,
    mean_bars,
    mean_curve,
    reference_line,
    seed_column,
    seed_dots,
    spread,
    tilted_labels,
    zero_line,
)
from circuitax.figures.palette import BLUE, GREEN
from circuitax.figures.style import STYLE
from circuitax.records.estimate import Estimate, exact, mean_estimate


@pytest.fixture
def ax() -> Iterator[Axes]:
    with matplotlib.rc_context(fname=STYLE):
        yield Figure().subplots()


def bar_ends(ax: Axes, axis: int = 1) -> np.ndarray:
    """Both ends of every error bar, ``[bar, 2]``."""
    (stems,) = [c for c in ax.containers if hasattr(c, "has_yerr")][-1].lines[2]
    return np.array([segment[:, axis] for segment in stems.get_segments()])


def test_a_curve_is_the_mean_and_its_band_the_interval(ax: Axes, rng: np.random.Generator) -> None:
    x, rows = np.array([1.0, 4.0, 9.0]), rng.normal(size=(3, 6))
    curve = mean_curve(ax, x, rows, BLUE, label="arm", each=True, linestyle="--")
    np.testing.assert_array_equal(curve.get_xdata(), x)
    np.testing.assert_allclose(curve.get_ydata(), rows.mean(axis=1))
    assert (curve.get_label(), curve.get_linestyle()) == ("arm", "--")
    thin = np.array([line.get_ydata() for line in ax.lines if line is not curve])
    np.testing.assert_array_equal(thin, rows.T)
    (band,) = ax.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices.round(9)}
    for place, row in zip(x, rows, strict=True):
        found = mean_estimate(row)
        assert (place, round(found.low, 9)) in corners
        assert (place, round(found.high, 9)) in corners
    assert to_hex(band.get_facecolor()[0]).upper() == BLUE


def test_a_single_member_has_no_band_and_nan_no_say(ax: Axes) -> None:
    mean_curve(ax, [0.0, 1.0], [[2.0], [3.0]], BLUE)
    assert not ax.collections and len(ax.lines) == 1
    curve = mean_curve(ax, [0.0, 1.0], [[2.0, np.nan, 4.0], [3.0, 5.0, 7.0]], GREEN)
    np.testing.assert_array_equal(curve.get_ydata(), [3.0, 5.0])


def test_a_band_is_cut_off_for_a_logarithmic_axis(ax: Axes) -> None:
    mean_curve(ax, [0.0, 1.0], [[0.1, 2.0], [0.2, 3.0]], BLUE, least=1e-6)
    assert ax.collections[0].get_paths()[0].vertices[:, 1].min() == 1e-6


def test_interval_lengths_and_bars(ax: Axes) -> None:
    estimates = [Estimate(2.0, 1.5, 4.0, 3, ""), Estimate(1.0, -np.inf, np.inf, 1, ""), exact(3.0)]
    np.testing.assert_array_equal(interval_lengths(estimates), [[0.5, 0, 0], [2.0, 0, 0]])
    interval_bars(ax, [5.0, 6.0, 7.0], estimates, marker="o")
    np.testing.assert_array_equal(bar_ends(ax), [[1.5, 4.0], [1.0, 1.0], [3.0, 3.0]])
    np.testing.assert_array_equal(bar_ends(ax, axis=0)[:, 0], [5.0, 6.0, 7.0])
    interval_bars(ax, [5.0, 6.0, 7.0], estimates, horizontal=True)
    np.testing.assert_array_equal(bar_ends(ax, axis=0), [[1.5, 4.0], [1.0, 1.0], [3.0, 3.0]])


def test_bars_stand_side_by_side(ax: Axes, rng: np.random.Generator) -> None:
    rows = rng.normal(2.0, 1.0, size=(3, 5))
    mean_bars(ax, rows, BLUE, shift=-0.2, width=0.4, label="kept")
    mean_bars(ax, rows[:, :1], GREEN, shift=0.2, width=0.4)
    heights = [patch.get_height() for patch in ax.patches]
    np.testing.assert_allclose(heights, [*rows.mean(axis=1), *rows[:, 0]])
    centres = [patch.get_x() + patch.get_width() / 2 for patch in ax.patches]
    np.testing.assert_allclose(centres, [-0.2, 0.8, 1.8, 0.2, 1.2, 2.2])
    np.testing.assert_allclose(bar_ends(ax), np.repeat(rows[:, :1], 2, axis=1))
    tilted_labels(ax, ["a", "b", "c"])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b", "c"]
    np.testing.assert_array_equal(ax.get_xticks(), [0, 1, 2])


def test_dots_lie_around_their_place(ax: Axes) -> None:
    np.testing.assert_allclose(spread(3, 0.2), [-0.2, 0.0, 0.2])
    np.testing.assert_array_equal(spread(1), [0.0])
    seed_dots(ax, 2.0, [5.0, 7.0, 6.0], BLUE, half_width=0.2)
    np.testing.assert_allclose(
        ax.collections[0].get_offsets(), [[1.8, 5.0], [2.0, 7.0], [2.2, 6.0]]
    )


def test_a_column_has_dots_a_mean_and_its_number(ax: Axes) -> None:
    values = [1.0, 2.0, 4.5]
    found = seed_column(ax, 3.0, values, BLUE, form=".2f")
    assert found == mean_estimate(values)
    np.testing.assert_allclose(bar_ends(ax), [[found.low, found.high]])
    (text,) = ax.texts
    assert text.get_text() == "2.50" and text.xy == (3.0, found.high)
    seed_column(ax, 4.0, [8.0], BLUE)
    assert ax.texts[-1].xy == (4.0, 8.0) and ax.texts[-1].get_text() == "8.000"
    assert len([c for c in ax.containers if hasattr(c, "has_yerr")]) == 1


def test_lines_to_compare_with(ax: Axes) -> None:
    across = reference_line(ax, y=0.7, label="chance", style="dashed")
    assert list(across.get_ydata()) == [0.7, 0.7]
    assert (across.get_label(), across.get_linestyle()) == ("chance", "--")
    assert list(reference_line(ax, x=2.0).get_xdata()) == [2.0, 2.0]
    assert list(zero_line(ax).get_ydata()) == [0, 0]
    assert list(zero_line(ax, vertical=True).get_xdata()) == [0, 0]
    with pytest.raises(ValueError, match=r"x=1.0 and y=2.0: exactly one"):
        reference_line(ax, x=1.0, y=2.0)
    with pytest.raises(ValueError, match="exactly one"):
        reference_line(ax)
    with pytest.raises(ValueError, match="style='dashes' must be one of solid, dashed, dotted"):
        reference_line(ax, y=0, style="dashes")


def test_one_legend_for_all_panels(ax: Axes) -> None:
    ax.plot([0], [0], label="one")
    ax.plot([1], [1], label="two")
    figure = ax.figure
    legend_above(figure, ax, 2)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
