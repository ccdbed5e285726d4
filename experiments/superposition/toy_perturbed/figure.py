"""One feature's density decides whether five features form a pentagon or two digons."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import legend_above, reference_line
from circuitax.figures.palette import BLACK, BLUE, GREY, ORANGE
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.record import Record
from circuitax.superposition.polytopes import align
from experiments.superposition.toy_perturbed.measures import (
    REPRESENTED,
    base_crossings,
    exact_crossing,
)

PRINTED = 2.5
TICKS = [0.1, 0.2, 0.5, 1, 2, 4]
COLOURS = (ORANGE, BLUE)  # two digons, pentagon


def branches(record: Record) -> Figure:
    """Losses over the ratio, and the crossing ratio over density."""
    data, density = record.data, record.notes["density"]
    figure, axes = new_figure(1, 2, height=2.6, width_ratios=[1.35, 1])
    left, right = axes[0]
    x, loss = data.exact_ratio.values, data.exact_loss.values
    for name, row, colour in zip(data.branch.values, loss, COLOURS, strict=True):
        left.plot(x, np.where(np.isfinite(row), row, np.nan), color=colour, label=f"exact {name}")
    ratio = np.broadcast_to(data.ratio.values, data.loss.shape)
    label = f"{len(ratio)} trained networks a ratio"
    dots = {"markersize": 3.5, "color": BLACK, "fillstyle": "none", "markeredgewidth": 0.5}
    left.plot(ratio.ravel(), data.loss.values.ravel(), "o", label=label, **dots)
    at = exact_crossing(data)
    if np.isfinite(at):
        reference_line(left, x=at, style="solid", label=f"exact crossing, {at:.3f}")
    reference_line(left, x=1 / PRINTED, label="printed, 1/2.5")
    left.set(xscale="log", xlabel=f"density of one feature / density of the others ({density:g})")
    left.set(ylabel="exact loss, sum over features")
    highest = float(loss[np.isfinite(loss)].max())
    left.set(yscale="log", ylim=(None, 1.2 * highest))
    left.set_xticks(TICKS, [f"{t:g}" for t in TICKS])
    left.set_yticks([0.005, 0.01, 0.02, 0.05], ["0.005", "0.01", "0.02", "0.05"])
    left.minorticks_off()
    right.plot(
        data.base.values,
        base_crossings(data),
        color=BLACK,
        marker="o",
        markersize=3,
        label="exact crossing",
    )
    reference_line(right, y=1 / PRINTED, label="printed, 1/2.5")
    reference_line(right, x=density, style="dashed", colour=GREY)
    right.set(xlabel="density of the other four features", ylabel="crossing ratio", ylim=(0, 1))
    right.legend(loc="upper left", fontsize=6)
    letter_panels(axes[0])
    legend_above(figure, left, 3)
    return figure


def solutions(record: Record) -> Figure:
    """Columns of W of the best network at each ratio, rotated alike; the perturbed one upwards."""
    data = record.data
    best = np.maximum(data.best.values, 0)
    weights = data.W.values[best, np.arange(best.size)]
    figure, axes = new_figure(1, len(weights), width=PAGE, height=1.15)
    for ax, W, ratio in zip(axes[0], weights, data.ratio.values, strict=True):
        turned = upright(W)
        for feature in range(W.shape[1]):
            ax.plot(
                [0, turned[0, feature]],
                [0, turned[1, feature]],
                linewidth=1.3,
                color=ORANGE if feature == W.shape[1] - 1 else BLUE,
                marker="o",
                markevery=[1],
                markersize=2,
            )
        ax.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        ax.set_title(f"{ratio:g}", fontsize=7)
    figure.suptitle(
        "density of one feature / density of the others "
        f"(lowest exact loss of {data.sizes['seed']} seeds)",
        fontsize=7,
    )
    names = (("the others", BLUE), ("the perturbed feature", ORANGE))
    lines = [Line2D([], [], color=colour, label=name) for name, colour in names]
    figure.legend(handles=lines, loc="outside lower center", ncols=2)
    return figure


def upright(W: np.ndarray) -> np.ndarray:
    """W turned so that the perturbed feature points upwards, or digons lie along the diagonals."""
    x, y = W[:, -1]
    norm = np.hypot(x, y)
    if norm > REPRESENTED:
        return np.array([[y, -x], [x, y]]) @ W / norm
    diagonal = np.array([[1, -1, 1, -1], [1, -1, -1, 1]]) / 2**0.5
    return align(W[:, :-1], diagonal, permute=True).rotation @ W


FIGURES = (
    FigureSpec(
        "branches",
        branches,
        message="The best networks change their shape where the exact losses cross.",
        caption="Loss of both exact branches over the ratio of densities, with every trained "
        "network. The lower one changes at the solid line.",
        refuted="This is refuted if the best networks change elsewhere, or if dots lie below both "
        "branches.",
    ),
    FigureSpec(
        "solutions",
        solutions,
        message="Five features form a pentagon, unless one is much rarer: then it is left out.",
        caption="The best network at each ratio, turned so that all can be compared.",
    ),
)
