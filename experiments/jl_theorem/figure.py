"""Theorem 27 with both maps, and Corollary 28 on its own terms.

maps       The proof's map has its mean on the statement's upper edge: half of it lies outside.
           Refuted if the orange histogram lies inside the grey band.
corollary  On the corrected hypothesis both bounds of the corollary hold, with room to spare.
           Refuted if a point lies beyond 1.
"""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.style import (
    BLACK,
    BLUE,
    COLUMN,
    GREEN,
    GREY,
    ORANGE,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.records.record import Record


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The two figures of the experiment."""
    return {"maps": maps(record), "corollary": corollary(record)}


def maps(record: Record) -> Figure:
    """One pair under many maps of both kinds, with both intervals and the exact law."""
    data = record.data
    eps = data.attrs["pair_epsilon"]
    grid, law = data.ratio_grid.values, data.law.values
    figure, axes = new_figure(1, 2, height=2.3, sharey=True)
    intervals = {"statement": (1 - eps, 1 + eps), "proof": (1.0, (1 + eps) ** 2)}
    bins = np.linspace(grid[0], grid[-1], 97)
    for ax, (name, (low, high)) in zip(axes[0], intervals.items(), strict=True):
        ax.axvspan(low, high, color=GREY, alpha=0.25, linewidth=0)
        for kind, colour, label, gain in (
            ("signs", BLUE, r"$\pm 1/\sqrt{m}$", 1.0),
            ("proof", ORANGE, r"$\pm\sqrt{(1+\varepsilon)/m}$ (proof)", 1 + eps),
        ):
            ratio = data.ratio.sel(kind=kind).values
            outside = ((ratio < low) | (ratio > high)).mean()
            ax.hist(ratio, bins, density=True, histtype="stepfilled", alpha=0.55, color=colour,
                    label=f"{label}: {_percent(outside)} outside")  # fmt: skip
            ax.plot(gain * grid, law / gain, color=BLACK, linewidth=0.8)
        words = {
            "statement": r"stated: $[1-\varepsilon,\ 1+\varepsilon]$",
            "proof": r"proved: $[1,\ (1+\varepsilon)^2]$",
        }
        ax.set(title=words[name], xlim=(0.55, 1.95), xlabel=r"$\|f(x)-f(y)\|^2\,/\,\|x-y\|^2$")
        ax.set_ylim(0, 1.65 * law.max())
        ax.legend(loc="upper right")
    axes[0, 0].set_ylabel("density over maps")
    letter_panels(axes[0])
    return figure


def corollary(record: Record) -> Figure:
    """Worst error of every map over the corollary's bound, against the ε that it keeps."""
    data = record.data
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.3)
    ax = axes[0, 0]
    ax.axhline(1, color=BLACK, linewidth=0.8, linestyle="--")
    ax.annotate("bound", (0.99, 1), xycoords=("axes fraction", "data"), xytext=(0, 2),
                textcoords="offset points", ha="right", va="bottom", fontsize=7)  # fmt: skip
    for name, colour, marker, label in (
        ("inner_share", BLUE, "o", r"inner product, bound $3\varepsilon$"),
        ("cosine_share", GREEN, "^", r"cosine, bound $4\varepsilon/(1-\varepsilon)$"),
    ):
        ax.plot(data.kept_epsilon, data[name], marker, color=colour, markersize=2.5, label=label)
    ax.set(
        xlabel=r"$\varepsilon$ kept on unit points and 0",
        ylabel="worst error / bound",
        ylim=(0, 1.45),
    )
    ax.legend(loc="upper left")
    return figure


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
