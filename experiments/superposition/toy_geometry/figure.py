"""Equal features fill dimensions with polytopes; digons hold D* at 1/2 over many densities."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import legend_above, mean_curve, reference_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import COLUMN, PAGE, letter_panels, new_figure, sample_note
from circuitax.records.record import Record
from experiments.superposition.toy_geometry.claims import NOTEBOOK_STAR
from experiments.superposition.toy_geometry.measures import best_factors

COLOURS = {
    "dedicated": BLACK,
    "tetrahedron": PINK,
    "triangle": YELLOW,
    "digon": BLUE,
    "pentagon": GREEN,
    "square antiprism": ORANGE,
    "hexagon": SKY,
}
LINES = {"3/4": 3 / 4, "2/3": 2 / 3, "1/2": 1 / 2, "2/5": 2 / 5, "3/8": 3 / 8}
TICKS = [1, 2, 3, 5, 10, 20]


def dimensions(record: Record) -> Figure:
    """D* over 1/p: seeds, the notebook's run, and the exact best filling."""
    data = record.data
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.6)
    ax = axes[0, 0]
    x, star = data.inverse_density.values, data.dimensions_per_feature.values
    n, m = data.sizes["feature"], record.notes["n_hidden"]
    label = f"{len(star)} seeds, {n} features in {m}: mean, 95 %"
    mean_curve(ax, x, star.T, BLUE, label=label, each=True, marker=".")
    ax.plot(
        list(NOTEBOOK_STAR),
        list(NOTEBOOK_STAR.values()),
        "kx",
        markersize=4,
        label="notebook, one run, 200 in 20",
    )
    theory = data.theory_inverse_density.values
    gain = data.theory_gain.values
    best = gain.argmax(axis=0)
    sizes = (data.factor_features / data.factor_dimensions).values
    norm = data.theory_norm.values[best, np.arange(best.size)]
    height = 1 / (sizes[best] * norm**2)
    # Denser packings than the listed ones win where the densest of the list does.
    known = sizes[best] < sizes.max()
    ax.plot(
        theory[known],
        height[known],
        color=ORANGE,
        linewidth=1,
        label=f"exact best of {len(sizes)} polytopes",
    )
    for i, change in enumerate(best_factors(data)):
        named = "exact change of polytope" if i == 0 else None
        reference_line(ax, x=change.at, colour=GREY, label=named)
    reference_line(ax, y=0.5)
    ax.set(xscale="log", xlabel="1/p = 1/(1 - S)", ylabel="$D^* = m / |W|_F^2$", ylim=(0, 1.1))
    ax.set_xticks(TICKS, [str(t) for t in TICKS])
    ax.minorticks_off()
    ax.legend(loc="upper right", fontsize=6, frameon=True, framealpha=1, edgecolor="none")
    return figure


def features(record: Record) -> Figure:
    """D_i of every represented feature with its polytope, and how often each polytope occurs."""
    data = record.data
    figure, axes = new_figure(1, 2, width=PAGE, height=2.9, width_ratios=[1.4, 1])
    left, right = axes[0]
    names = [str(name) for name in data.name.values]
    label = data.polytope.values
    x = np.broadcast_to(data.inverse_density.values[None, :, None], label.shape)
    random = np.random.default_rng(0).normal(0, 0.012, label.shape)
    groups = {name: [names.index(name)] for name in COLOURS if name in names}
    groups = {name: numbers for name, numbers in groups.items() if np.isin(label, numbers).any()}
    groups["other component"] = [i for i in range(len(names)) if names[i] not in COLOURS]
    for name, numbers in list(groups.items())[::-1]:
        chosen = np.isin(label, numbers)
        colour = COLOURS.get(name, GREY)
        left.plot(
            (x * np.exp(random))[chosen],
            data.dimensionality.values[chosen],
            ".",
            markersize=1.5 if name not in COLOURS else 2.5,
            color=colour,
            alpha=0.5,
            rasterized=True,
        )
    for text, height in LINES.items():
        reference_line(left, y=height, colour=GREY)
        left.annotate(
            text,
            (1.01, height),
            xycoords=("axes fraction", "data"),
            fontsize=6,
            va="top" if text == "3/8" else "bottom" if text == "2/5" else "center",
        )
    left.set(xscale="log", xlabel="1/p = 1/(1 - S)", ylabel="dimensionality $D_i$", ylim=(0, 1.05))
    total = (label >= 0).sum(axis=(0, 2))
    bottom = np.zeros(len(total))
    places = np.arange(len(total))
    for name, numbers in groups.items():
        share = np.isin(label, numbers).sum(axis=(0, 2)) / np.maximum(total, 1)
        right.bar(places, share, bottom=bottom, color=COLOURS.get(name, "#CCCCCC"), label=name)
        bottom += share
    for place in places[total == 0]:
        right.text(place, 0.02, "none represented", rotation=90, ha="center", fontsize=6)
    right.set(ylabel="share of represented features", xlabel="1/p", ylim=(0, 1))
    right.set_xticks(
        places, [f"{v:g}" for v in data.inverse_density.values], rotation=90, fontsize=6
    )
    _log_ticks(left)
    letter_panels(axes[0])
    rows = 2 if len(groups) > 5 else 1
    legend_above(figure, right, -(-len(groups) // rows))
    sample_note(figure, f"every represented feature of {len(label)} seeds")
    return figure


def _log_ticks(ax: Axes) -> None:
    ax.set_xticks(TICKS, [str(t) for t in TICKS])
    ax.minorticks_off()


FIGURES = (
    FigureSpec(
        "dimensions",
        dimensions,
        message="D* stays near 1/2 while digons are the best filling, then falls.",
        caption="Dotted lines are exact changes of the best polytope; digons lie between the "
        "inner two.",
        refuted="This is refuted if there is no shelf at 1/2 between these, or if D* rises.",
    ),
    FigureSpec(
        "features",
        features,
        message="Recognised polytopes lie at their dimensionality, or below where too many share "
        "space.",
        refuted="This is refuted if labelled dots are above their lines, or if digons on the "
        "plateau are not at 1/2.",
    ),
)
