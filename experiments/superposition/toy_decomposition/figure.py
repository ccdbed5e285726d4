"""Does parameter decomposition find the parts of a model, when they are known exactly?"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import interval_bars, reference_line, seed_dots
from circuitax.figures.palette import BLACK, BLUE, COLOURS, GREY, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.estimate import mean_of_finite
from circuitax.records.record import Record

# Mean max cosine and norm ratio. SPD: table of arXiv 2506.20790; APD: arXiv 2501.14926, which has
# no targets with an identity.
SPD = {
    "small": (1.0, 0.993),
    "small ID": (1.0, 0.992),
    "large": (1.0, 1.010),
    "large ID": (1.0, 1.031),
}
APD = {"small": (0.998, 0.893), "large": (0.996, 0.935)}


def scores(record: Record) -> Figure:
    """Cosines, norm ratios and numbers of live subcomponents of every target."""
    figure, axes = new_figure(1, 3, width=PAGE, height=2.6)
    cosine, ratio, alive = axes[0]
    for name, shift, colour in (("cosine", -0.15, BLUE), ("rank_one", 0.15, ORANGE)):
        _dots(cosine, record, name, shift, colour)
        starts = record.data[f"start_{name}"].mean("seed").values
        cosine.plot(np.arange(len(starts)) + shift, starts, "_", color=colour, markersize=9)
    _papers(cosine, record, 0)
    cosine.set(ylabel="mean max cosine", title="features found")
    _dots(ratio, record, "norm_ratio", 0, BLUE)
    _papers(ratio, record, 1)
    reference_line(ratio, y=1)
    ratio.set(ylabel="norm ratio", title="shrinkage")
    _alive(alive, record)
    for ax in axes[0]:
        ax.set_xticks(range(record.data.sizes["target"]), _labels(record))
    marks = [
        Line2D([], [], marker="o", linestyle="", color=BLUE, label="rows (papers' score)"),
        Line2D([], [], marker="o", linestyle="", color=ORANGE, label="whole subcomponents"),
        Line2D([], [], marker="_", linestyle="", color=GREY, label="before training"),
        Line2D([], [], marker="x", linestyle="", color=BLACK, label="SPD, as printed"),
        Line2D([], [], marker="+", linestyle="", color=PINK, label="APD, as printed"),
    ]
    small, *_, large = record.data.cosine.count("seed").values
    n = f"{small}" if small == large else f"{small} and {large}"
    title = f"dots: {n} seeds, each its own target; bars: mean, t interval 95 %"
    figure.legend(handles=marks, loc="outside lower center", ncols=5, title=title)
    letter_panels(axes[0])
    ends = record.data.cosine.mean("seed").values
    start = float(record.data.start_cosine.mean("seed").values[0])
    small, large = (record.notes["sizes"][size][1] for size in ("small", "large"))
    message = (
        f"The papers' cosine is {ends[0]:.3f} in {small} dimensions ({start:.3f} before training)"
    )
    headline(figure, f"{message}, {ends[-1]:.3f} in {large}")
    return figure


def parts(record: Record) -> Figure:
    """Positions of one model's subcomponents, and the active ones for each feature."""
    name = [target for target in record.data.target.values if target.startswith("small")][-1]
    prefix = name.replace(" ", "_")
    alone = record.data[f"{prefix}_alone"].transpose(..., "small_feature", "small_component").values
    maps = ("encoder", "identity", "decoder") if len(alone) == 3 else ("encoder", "decoder")
    widths = (1, *(0.5 if place == "identity" else 1 for place in maps))
    figure, axes = new_figure(1, len(widths), width=PAGE, height=2.5, width_ratios=widths)
    _rows(axes[0, 0], record, prefix)
    for ax, on, place in zip(axes[0, 1:], alone, maps, strict=True):
        strongest = on.max(axis=0)
        live = np.flatnonzero(strongest > 0.1) if strongest.max() > 0.1 else np.arange(1)
        order = live[np.argsort(on[:, live].argmax(axis=0), kind="stable")]
        image = ax.imshow(on[:, order], vmin=0, vmax=1, cmap="Greys", aspect="auto")
        ax.set_xticks(range(len(order)), order, fontsize=6)
        ax.set_yticks(range(on.shape[0]), range(1, on.shape[0] + 1))
        ax.set(xlabel="subcomponent", title=place)
    axes[0, 1].set_ylabel("feature that is on")
    figure.colorbar(image, ax=axes[0, -1], label="importance")
    letter_panels(axes[0])
    n = len(alone[0])
    own = round(n * float(record.data.one_to_one.sel(target=name).isel(seed=0)))
    headline(
        figure,
        f"One model: {own} of {n} features turn on one subcomponent of the encoder each, which no "
        "other does",
    )
    return figure


def _rows(ax: Axes, record: Record, prefix: str) -> None:
    """True directions as lines, and row i of each subcomponent as a dot in the colour of i."""
    W = record.data["small_W"].isel(small_seed=0).transpose("small_hidden", "small_feature").values
    V = record.data[f"{prefix}_V"].transpose("small_component", "small_feature").values
    U = record.data[f"{prefix}_U"].transpose("small_component", "small_hidden").values
    for i in range(W.shape[1]):
        colour = COLOURS[i] if i < len(COLOURS) else GREY
        ax.plot([0, W[0, i]], [0, W[1, i]], color=colour, linewidth=1)
        ax.plot(V[:, i] * U[:, 0], V[:, i] * U[:, 1], "o", color=colour, markersize=3, alpha=0.7)
        ax.annotate(
            str(i + 1), (1.12 * W[0, i], 1.12 * W[1, i]), ha="center", va="center", fontsize=7
        )
    ax.set_aspect("equal")
    ax.margins(0.15)
    ax.set(title="lines: true, dots: found", xlabel="hidden 1", ylabel="hidden 2")


def _dots(ax: Axes, record: Record, name: str, shift: float, colour: str) -> None:
    rows = record.data[name].transpose("target", "seed").values
    at = np.arange(len(rows)) + shift
    for place, row in zip(at, rows, strict=True):
        seed_dots(ax, place, row, colour, half_width=0.08, size=4, opacity=0.35)
    found = [mean_of_finite(row) for row in rows]
    interval_bars(ax, at, found, colour=colour, fmt="o", markersize=3)


def _papers(ax: Axes, record: Record, score: int) -> None:
    for i, target in enumerate(record.data.target.values):
        ax.plot(i, SPD[target][score], "x", color=BLACK, markersize=5, zorder=5)
        if target in APD:
            ax.plot(i, APD[target][score], "+", color=PINK, markersize=6, zorder=5)


def _alive(ax: Axes, record: Record) -> None:
    """Live subcomponents over true ones, in each map."""
    data = record.data
    shown = (("encoder", BLUE, -0.2), ("identity", BLACK, 0.0), ("decoder", GREY, 0.2))
    for place, colour, shift in shown:
        for i, target in enumerate(data.target.values):
            n, m, _ = record.notes["sizes"][target.removesuffix(" ID")]
            values = data.alive.sel(target=target, place=place).values
            label = place if i == data.sizes["target"] - 1 else None
            over = values / (m if place == "identity" else n)
            seed_dots(ax, i + shift, over, colour, half_width=0.06, size=5, label=label)
    reference_line(ax, y=1)
    ax.set_ylim(0)
    ax.set(ylabel="alive / true number", title="subcomponents alive")
    ax.legend(fontsize=6)


def _labels(record: Record) -> list[str]:
    names = []
    for target in record.data.target.values:
        n, m, _ = record.notes["sizes"][target.removesuffix(" ID")]
        names.append(f"{n}-{m}\n+ ID" if target.endswith("ID") else f"{n}-{m}")
    return names


FIGURES = (
    FigureSpec(
        "scores",
        scores,
        message="The published scores of each target, with the papers' numbers, the score of "
        "whole subcomponents, and how many are alive.",
        refuted="This is refuted where intervals miss the papers' numbers, or where the score "
        "before training is as high as after it.",
    ),
    FigureSpec(
        "parts",
        parts,
        message="Subcomponents of one model with five features in two dimensions: the output for "
        "input feature i, and the active subcomponents for each feature alone.",
        refuted="This is refuted if a feature turns on none, or several.",
    ),
)
