"""Axes of phase diagrams over density and importance, and the borders of the simple formulas."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

TRIPLE_OF_FORMULAS = 4 / 7  # density at which the regions meet by the simple formulas


def phase_axes(ax: Axes) -> None:
    """Logarithmic axes in the ranges of the paper's figure, sparse to the right."""
    ax.set(xscale="log", yscale="log", xlim=(1, 0.01), ylim=(0.1, 10))
    ax.set_xticks([1, 0.1, 0.01], ["1", "0.1", "0.01"])
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
