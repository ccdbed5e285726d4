"""Features move between levels while the loss falls; an octahedron forms in steps."""

import numpy as np
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line, seed_column
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.superposition.toy_dynamics.measures import (
    LEVEL_WIDTH,
    LEVELS,
    drop_correlation,
    loss_kinks,
    on_level,
    onset,
    passages,
    regimes,
    sudden,
)
from experiments.superposition.toy_dynamics.sets import farthest, inside, is_octahedron

SHOWN = 0  # the seed of the single-network panels: the first one, whatever it shows
ROWS = 16  # seeds of the panel with a row for each: the first ones
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, BLACK)


def levels(record: Record) -> Figure:
    """D_i and loss of one network; levels, jumps and drops of all."""
    data = record.data
    steps, d = data.step.values, data.dimensionality.values
    n, m, seeds = data.sizes["feature"], record.notes["n_hidden"], data.sizes["seed"]
    figure, axes = new_figure(2, 2, width=PAGE, height=3.5, width_ratios=[1.5, 1])
    (top, right), (bottom, below) = axes
    for i in range(n):
        top.plot(steps, d[:, SHOWN, i], color=COLOURS[i % len(COLOURS)], linewidth=0.8)
    for level in LEVELS:
        reference_line(top, y=level)
    p = record.notes["density"]
    top.set(ylabel="dimensionality $D_i$", ylim=(-0.03, 0.75))
    top.set_title(f"seed {SHOWN}: {n} equal features in {m}, $p$ = {p:.2g}", fontsize=7)
    bottom.plot(steps, data.loss.values, color=GREY, linewidth=0.5, alpha=0.5, rasterized=True)
    bottom.plot(steps, data.loss.values[:, SHOWN], color=BLUE, label=f"seed {SHOWN}")
    bottom.plot([], [], color=GREY, linewidth=0.5, label=f"each of {seeds} seeds")
    end = data.loss.values[-1].mean()
    bottom.set(xlabel="step", ylabel="loss, sum of features", ylim=(0.97 * end, 1.5 * end))
    bottom.legend(fontsize=6)
    share = on_level(d).mean(axis=-1)
    mean_curve(right, steps, share, BLUE, label=f"{seeds} seeds: mean, 95 %")
    right.set(xlabel="step", ylabel="share of features", ylim=(0, 1.05))
    right.set_title(f"$D_i$ within {LEVEL_WIDTH:g} of 0 or 1/2", fontsize=7)
    right.legend(fontsize=6, loc="lower right")
    seed_column(below, 0, drop_correlation(data), ORANGE, form=".2f")
    taken = [share * float(np.ptp(steps)) for row in passages(d) for share in row]
    if taken:
        seed_column(below, 1, sudden(d), GREEN, form=".2f")
        below.set_title(f"{len(taken)} passages, median {np.median(taken):.0f} steps", fontsize=7)
    reference_line(below, y=0.5, label="claim: at least")
    below.set(xlim=(-0.5, 1.5), ylim=(-0.5, 1.1), ylabel=f"{seeds} seeds, mean, 95 %")
    below.set_xticks(
        [0, 1],
        [
            "correlation of motion\noff levels with fall of\nlog loss, less means",
            "passages from level\nto level within 5 %\nof steps, of all",
        ],
    )
    below.legend(fontsize=6, loc="upper right")
    letter_panels(axes.ravel())
    return figure


def octahedron(record: Record) -> Figure:
    """Loss and kinks of one network, cosines of all, and when each seed changes regime."""
    data = record.data
    steps, W = data.set_step.values, data.set_W.values
    seeds = data.sizes["seed"]
    figure, axes = new_figure(1, 3, width=PAGE, height=2.6, width_ratios=[1, 1, 1.3])
    left, middle, right = axes[0]
    found, when, begins = loss_kinks(data), regimes(data), onset(data)
    left.plot(steps, data.set_loss.values, color=GREY, linewidth=0.5, alpha=0.5, rasterized=True)
    left.plot(steps, data.set_loss.values[:, SHOWN], color=BLUE, label=f"seed {SHOWN}")
    row = data.set_loss.values[:, SHOWN]
    left.plot(
        found[SHOWN],
        row[np.searchsorted(steps, found[SHOWN])],
        "D",
        color=BLACK,
        fillstyle="none",
        markersize=4,
        label="its kinks, by the code",
    )
    left.plot([], [], color=GREY, linewidth=0.5, label=f"each of {seeds} seeds")
    left.set(xlabel="step", ylabel="exact loss, sum of features", yscale="log")
    left.legend(fontsize=6)
    mean_curve(middle, steps, inside(W), ORANGE, label="inside a set, mean", each=True)
    mean_curve(middle, steps, farthest(W), BLUE, label="farthest of the other set", each=True)
    for height in (0, -1):
        reference_line(middle, y=height)
    middle.set(xlabel="step", ylabel=f"cosine, {seeds} seeds: mean, 95 %", ylim=(-1.05, 1.45))
    middle.legend(fontsize=6, loc="upper right")
    rows = min(seeds, ROWS)
    for seed, row in enumerate(found[:rows]):
        named = seed == 0
        right.plot(
            row,
            [seed] * len(row),
            "D",
            color=BLACK,
            fillstyle="none",
            markersize=3.5,
            markeredgewidth=0.6,
            label="kink of the loss" if named else None,
        )
    marks = {
        "one direction each": (when.separated, "s", GREEN),
        "begins to open": (begins, "^", ORANGE),
        "open": (when.opened, "v", SKY),
        "octahedron": (when.octahedron, "o", BLUE),
    }
    for name, (at, marker, colour) in marks.items():
        right.plot(at[:rows], np.arange(rows), marker, color=colour, markersize=3, label=name)
    right.set(xlabel="step", ylabel="seed", ylim=(-1, 1.45 * rows), xlim=(0, steps[-1] * 1.02))
    right.set_yticks(range(0, rows, 5))
    right.legend(fontsize=6, loc="upper center", ncols=2)
    letter_panels(axes[0])
    formed = int(is_octahedron(W[-1]).sum())
    headline(
        figure,
        "Sets of three correlated features are one direction each, then open; "
        f"{formed} of {seeds} networks form an octahedron",
    )
    return figure


FIGURES = (
    FigureSpec(
        "levels",
        levels,
        message="Equal features end at D = 0 or 1/2, and motion between levels says little about "
        "when the loss falls.",
        refuted="This is refuted if curves stay away from the lines, or if correlations are at 0.5 "
        "and above.",
    ),
    FigureSpec(
        "octahedron",
        octahedron,
        message="Two sets of three correlated features are first one direction each, then open, "
        "and may form an octahedron, with kinks of the loss at the changes.",
        refuted="This is refuted if the symbols of a seed are out of order, or if kinks are away "
        "from them.",
    ),
)
