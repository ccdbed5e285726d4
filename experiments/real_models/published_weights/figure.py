"""Published numbers, and measurements of the models at hand."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLUE, GREY, ORANGE, SEQUENTIAL, SKY
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import Record

ROWS = ("1.4, first", "1.4, first five", "1.4 + 1.10, first", "1.4 + 1.10, first five")


def copying(record: Record) -> Figure:
    """Printed shares as bars, measured ones as crosses."""
    data = record.data
    figure, axes = new_figure(height=1.9)
    ax = axes[0, 0]
    y = np.arange(len(ROWS))[::-1]
    printed = 100 * data.printed.values
    ax.barh(y, printed, 0.6, color=SKY, label="printed (ARENA 1.2)")
    for at, value in zip(y, printed, strict=True):
        ax.annotate(f"{value:.4g} %", (0, at), (4, 0), textcoords="offset points", va="center")
    if "copied" in data:
        found = 100 * data.copied.transpose("heads", "k").values.ravel()
        ax.plot(found, y, "x", color=ORANGE, label="measured")
    else:
        ax.annotate(
            "no weights at hand: not measured",
            (0.98, 0.94),
            xycoords="axes fraction",
            ha="right",
            va="top",
            color=GREY,
        )
    ax.set(
        xlim=(0, 104),
        xlabel="tokens that the heads' OV circuit raises most, %",
        yticks=y,
        yticklabels=ROWS,
    )
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure


def heads(record: Record) -> Figure:
    """Composition Q, K, V over all pairs, and prefix scores of layer 1 without a head."""
    data = record.data
    figure, axes = new_figure(1, 4, height=2.2, width_ratios=(1, 1, 1, 1.25))
    top = float(data.composition.max())
    for ax, kind in zip(axes[0], data.kind.values, strict=False):
        scores = data.composition.sel(kind=kind).transpose("reader", "writer")
        image = ax.imshow(scores, vmin=0, vmax=top, cmap=SEQUENTIAL, origin="lower")
        ax.set(title=f"{kind}-composition", xlabel="head of layer 0")
    axes[0, 0].set_ylabel("head of layer 1")
    figure.colorbar(image, ax=axes[0, :3].tolist(), label="score", shrink=0.8)
    ax = axes[0, 3]
    removed = np.arange(data.sizes["removed"])
    inducing = data.prefix.isel(layer=1) > 0.4
    for i, head in enumerate(np.flatnonzero(inducing.values)):
        ax.plot(
            removed,
            data.prefix_without.isel(head=head),
            "os^v"[i % 4],
            markersize=3,
            color=(BLUE, ORANGE)[i % 2],
            label=f"head 1.{head}",
        )
        reference_line(ax, y=data.prefix.isel(layer=1, head=head))
    ax.set(xlabel="head of layer 0 removed", ylabel="prefix score", ylim=(0, 1.05))
    if inducing.any():
        ax.legend(title="dotted: none removed")
    letter_panels(axes[0])
    return figure


FIGURES = (
    FigureSpec(
        "copying",
        copying,
        message="Copying accuracy of heads, by the highest and the five highest raises: as "
        "printed, and as measured where the weights are at hand.",
        refuted="Refuted by a cross beside its bar's end.",
    ),
    FigureSpec(
        "heads",
        heads,
        message="Composition of all pairs of heads, and the remaining induction without each head "
        "of layer 0; drawn only where the weights are at hand.",
        refuted="Refuted if other cells of the K panel are as bright as those of the "
        "previous-token head with the induction heads.",
        where=lambda record: "composition" in record.data,
    ),
)
