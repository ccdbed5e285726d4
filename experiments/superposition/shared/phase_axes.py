"""Axes of figures over density and importance, and the borders of the simple formulas."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes

DENSITY = r"density $p$ (sparser $\rightarrow$)"
TRIPLE_OF_FORMULAS = 4 / 7  # density at which the regions meet by the simple formulas


def density_axis(ax: Axes, ticks: Iterable[float]) -> None:
    """The one axis of sparsity: the logarithm of the density, sparse to the right."""
    places = list(ticks)
    ax.set(xscale="log", xlabel=DENSITY)
    ax.set_xlim(max(ax.get_xlim()), min(ax.get_xlim()))
    ax.set_xticks(places, [f"{p:.2g}" for p in places])
    ax.minorticks_off()


def phase_axes(ax: Axes) -> None:
    """Logarithmic axes in the ranges of the paper's figure, sparse to the right."""
    ax.set(yscale="log", xlim=(0.01, 1), ylim=(0.1, 10))
    density_axis(ax, [1, 0.1, 0.01])
    ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.minorticks_off()
    ax.spines[:].set_visible(True)


def formula_borders(ax: Axes, colour: str, *, paired: bool, label: str | None = None) -> None:
    """Where two closed forms have equal loss; ``paired`` for two features in one dimension.

    Source: toy-models paper, phase change; derived.
    """
    p = np.geomspace(0.01, TRIPLE_OF_FORMULAS, 200)
    low = 2 * p / (4 - 5 * p)
    line: dict[str, Any] = {"color": colour, "linewidth": 0.9}
    ax.plot(p, low, label=label, **line)
    if paired:
        ax.plot(p, 1 / low, **line)
        ax.plot([TRIPLE_OF_FORMULAS, 1], [1, 1], **line)
    else:
        ax.plot([0.01, 1], [1, 1], **line)
