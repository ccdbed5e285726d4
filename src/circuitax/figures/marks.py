"""Common marks of figures: means with intervals, a dot for each seed, reference lines.

An interval that is not finite (a single seed has none) is drawn as nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from circuitax.figures.palette import BLACK, GREY
from circuitax.figures.style import new_figure
from circuitax.records.estimate import Estimate, mean_estimate

LINE_STYLES = {"solid": "-", "dashed": "--", "dotted": ":"}


def mean_curve(
    ax: Axes,
    x: ArrayLike,
    rows: ArrayLike,
    colour: str,
    *,
    label: str | None = None,
    each: bool = False,
    opacity: float | int = 0.3,
    least: float | int | None = None,
    **line: Any,
) -> Line2D:
    """The mean over members at each x, and a band that is its 95 % interval.

    Args:
        ax: Axes to draw on.
        x: One number for each row.
        rows: ``[x, member]``; numbers that are not finite are left out of their row's mean.
        colour: Colour of line and band.
        label: Text in the legend.
        each: Whether every member is drawn too, as a thin line.
        opacity: Opacity of the band, in (0, 1].
        least: Value at which a band is cut off below, for logarithmic axes.
        **line: Passed to the line of means, such as ``linestyle`` or ``marker``.
    """
    places, values = np.asarray(x), np.asarray(rows, float)
    if each:
        ax.plot(places, values, color=colour, linewidth=0.3, alpha=0.25)
    found = [mean_estimate(row[np.isfinite(row)]) for row in values]
    (curve,) = ax.plot(places, [e.value for e in found], color=colour, label=label, **line)
    low, high = (np.array([getattr(e, end) for e in found]) for end in ("low", "high"))
    if np.isfinite(low).all():
        low = low if least is None else np.maximum(low, least)
        ax.fill_between(places, low, high, color=colour, alpha=opacity, linewidth=0)
    return curve


def interval_lengths(estimates: Iterable[Estimate]) -> np.ndarray:
    """Lengths of intervals below and above their values, ``[2, n]``; 0 for infinite ones."""
    ends = np.array([[e.value - e.low, e.high - e.value] for e in estimates]).T
    return np.where(np.isfinite(ends), ends, 0)


def interval_bars(
    ax: Axes,
    x: ArrayLike,
    estimates: Sequence[Estimate],
    *,
    colour: str = BLACK,
    horizontal: bool = False,
    **how: Any,
) -> None:
    """Values with their intervals as error bars.

    Args:
        ax: Axes to draw on.
        x: One place for each estimate; heights where ``horizontal``.
        estimates: The values and intervals.
        colour: Colour of all marks.
        horizontal: Whether intervals lie along the x axis.
        **how: Passed to ``Axes.errorbar``, such as ``fmt``, ``marker`` or ``label``.
    """
    middle, ends = [e.value for e in estimates], interval_lengths(estimates)
    how = {"capsize": 2, "linewidth": 1} | how
    if horizontal:
        ax.errorbar(middle, np.asarray(x), xerr=ends, color=colour, **how)
    else:
        ax.errorbar(np.asarray(x), middle, yerr=ends, color=colour, **how)


def mean_bars(
    ax: Axes,
    rows: ArrayLike,
    colour: str,
    *,
    shift: float | int = 0.0,
    width: float | int = 0.65,
    label: str | None = None,
) -> None:
    """Means as bars at 0, 1, 2, ..., with their 95 % intervals.

    Args:
        ax: Axes to draw on.
        rows: ``[bar, member]``.
        colour: Colour of the bars.
        shift: Moves all bars to the right, so that groups stand side by side.
        width: Width of a bar.
        label: Text in the legend.
    """
    found = [mean_estimate(row) for row in np.asarray(rows, float)]
    ax.bar(
        np.arange(len(found)) + shift,
        [e.value for e in found],
        width,
        yerr=interval_lengths(found),
        color=colour,
        label=label,
        error_kw={"linewidth": 0.8},
    )


def tilted_labels(ax: Axes, labels: Sequence[str]) -> None:
    """Tick labels at 0, 1, 2, ... of the x axis, tilted to fit."""
    ax.set_xticks(range(len(labels)), labels, rotation=30, ha="right", rotation_mode="anchor")


def spread(n: int, half_width: float | int = 0.15) -> np.ndarray:
    """Evenly spaced offsets around 0 for n overlapping dots; a single one at 0."""
    return np.linspace(-half_width, half_width, n) if n > 1 else np.zeros(n)


def seed_dots(
    ax: Axes,
    x: SupportsFloat,
    values: ArrayLike,
    colour: str,
    *,
    half_width: float | int = 0.15,
    size: float | int = 9,
    opacity: float | int = 0.6,
    label: str | None = None,
) -> None:
    """A dot for each seed around one place of the x axis.

    Args:
        ax: Axes to draw on.
        x: The place.
        values: One number for each seed.
        colour: Colour of the dots.
        half_width: How far the dots spread to either side.
        size: Area of a dot, in points squared.
        opacity: Opacity of the dots, in (0, 1].
        label: Text in the legend.
    """
    samples = np.asarray(values, float).ravel()
    places = float(x) + spread(samples.size, half_width)
    ax.scatter(places, samples, s=size, color=colour, alpha=opacity, linewidths=0, label=label)


def seed_column(
    ax: Axes, x: SupportsFloat, values: ArrayLike, colour: str, *, form: str = ".3f", **dots: Any
) -> Estimate:
    """A dot for each seed, their mean with its interval, and the mean as a number above them.

    Args:
        ax: Axes to draw on.
        x: Place on the x axis.
        values: One finite number for each seed.
        colour: Colour of the dots.
        form: Format of the number.
        **dots: Passed to `seed_dots`.

    Returns:
        The mean.
    """
    samples = np.asarray(values, float).ravel()
    seed_dots(ax, x, samples, colour, **dots)
    found = mean_estimate(samples)
    top = float(samples.max())
    ax.margins(y=0.12)  # room for the number
    if np.isfinite(found.low):
        interval_bars(ax, [float(x)], [found], capsize=3)
        top = max(top, found.high)
    ax.annotate(
        f"{found.value:{form}}".replace("-", "\N{MINUS SIGN}"),
        (float(x), top),
        xytext=(0, 4),
        ha="center",
        textcoords="offset points",
        fontsize=6.5,
    )
    return found


def reference_line(
    ax: Axes,
    *,
    y: SupportsFloat | None = None,
    x: SupportsFloat | None = None,
    label: str | None = None,
    style: str = "dotted",
    colour: str = BLACK,
) -> Line2D:
    """A reference line across the panel, such as chance, a bound, or another model's value.

    Args:
        ax: Axes to draw on.
        y: Height of a horizontal line; give this or ``x``.
        x: Place of a vertical line.
        label: Text in the legend.
        style: ``"solid"``, ``"dashed"`` or ``"dotted"``.
        colour: Colour of the line.

    Raises:
        ValueError: If not exactly one of ``x`` and ``y`` is given, or ``style`` is unknown.
    """
    if style not in LINE_STYLES:
        raise ValueError(f"style={style!r} must be one of {', '.join(LINE_STYLES)}")
    how: dict[str, Any] = {"color": colour, "linewidth": 0.7, "linestyle": LINE_STYLES[style]}
    if y is not None and x is None:
        return ax.axhline(float(y), label=label, **how)
    if x is not None and y is None:
        return ax.axvline(float(x), label=label, **how)
    raise ValueError(f"x={x} and y={y}: exactly one of them must be given")


def zero_line(ax: Axes, *, vertical: bool = False) -> Line2D:
    """A thin line at zero."""
    draw = ax.axvline if vertical else ax.axhline
    return draw(0, color=GREY, linewidth=0.5)


def legend_above(figure: Figure, ax: Axes, columns: int, **how: Any) -> None:
    """One legend for all panels, above them, with the labels of one of them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, **how)


# Where each column of a table of skip-trigrams begins, in [0, 1], by what stands above it.
TRIGRAM_COLUMNS = {"it sees": 0.0, "and stands at": 0.16, "so it says": 0.45, "as in": 0.74}


def trigram_table(sources: np.ndarray, destinations: np.ndarray, outs: np.ndarray) -> Figure:
    """The skip-trigrams of each head as words, with an example in grey; call it under ``styled``.

    Args:
        sources: A word for each row of each head, ``[head, row]``.
        destinations: Words from which the head attends to it, ``[head, row, entry]``.
        outs: Words that it then raises, ``[head, row, entry]``.
    """
    n_heads, n_rows = sources.shape
    figure, axes = new_figure(height=0.5 + 0.19 * n_heads * (n_rows + 0.5))
    ax, y = axes[0, 0], 0.0
    for title, x in TRIGRAM_COLUMNS.items():
        ax.text(x, -0.7, title, fontsize=7, weight="bold")
    for head in range(n_heads):
        middle = y + 0.5 * n_rows
        ax.text(-0.02, middle, f"head {head}", rotation=90, ha="right", va="center")
        for source, there, said in zip(sources[head], destinations[head], outs[head], strict=True):
            example = f"{source} … {there[0]} {said[0]}"
            cells = (source, "  ".join(there), "  ".join(said), example)
            for x, word in zip(TRIGRAM_COLUMNS.values(), cells, strict=True):
                text = ax.text(x, y + 0.5, word, fontsize=6, family="monospace", parse_math=False)
                text.set(va="center", color=GREY if word is example else BLACK)
            y += 1
        y += 0.5
    ax.set(xlim=(-0.05, 1.0), ylim=(y, -1.2))
    ax.set_axis_off()
    return figure


def notice(text: str) -> Figure:
    """A figure that holds one message; call it under ``styled``.

    Args:
        text: What is missing and how to get it, in lines of at most some 90 letters.
    """
    figure, axes = new_figure(height=1.3)
    axes[0, 0].set_axis_off()
    axes[0, 0].text(0.5, 0.5, text, ha="center", va="center", color=GREY)
    return figure
