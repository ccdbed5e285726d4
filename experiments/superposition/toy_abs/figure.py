"""Can a layer compute absolute values of more features than it has neurons for?"""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE, PINK
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import COLUMN, PAGE, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.superposition.toy_abs.measures import computed, monosemantic


def neurons(record: Record) -> Figure:
    """Input weights of the best seed: a stacked bar for each neuron, a colour for each feature."""
    data = record.data
    n_density, n = data.sizes["sweep_density"], data.sizes["sweep_feature"]
    columns = min(4, n_density)
    rows = -(-n_density // columns)
    figure, axes = new_figure(rows, columns, width=PAGE, height=0.7 + 1.35 * rows)
    colours = matplotlib.colormaps["viridis_r"](np.linspace(0, 1, n))
    for ax in axes.flat[n_density:]:
        ax.set_axis_off()
    for i, ax in zip(range(n_density), axes.flat, strict=False):
        W = np.abs(data.sweep_W_in.values[i]).T
        W = W / np.maximum(W.max(axis=1, keepdims=True), 1e-12)
        live = data.sweep_live.values[i, int(data.sweep_best[i])]
        order = np.lexsort((W.argmax(axis=1), ~live))
        _stacks(ax, W[order], np.where(live[order][:, None, None], colours, to_rgba(GREY)))
        ax.set_title(f"$p$ = {float(data.sweep_density[i]):g}", fontsize=8)
        ax.set_xticks([])
        reference_line(ax, y=1)
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\Sigma_i |W_{in}|$ / largest")
    for ax in axes[-1]:
        ax.set_xlabel("neuron")
    figure.suptitle(
        f"sparser features share neurons (best of {data.sizes['sweep_seed']} seeds; "
        "grey: neuron not used)",
        fontsize=8,
    )
    scale = matplotlib.cm.ScalarMappable(matplotlib.colors.Normalize(0, n - 1), "viridis_r")
    figure.colorbar(scale, ax=axes, label="feature, most important first", shrink=0.8)
    return figure


def _stacks(ax: Axes, heights: np.ndarray, shades: np.ndarray) -> None:
    """Row i of heights as a stack of bars at i, in the colours of ``shades[i]``.

    All are one collection: thousands of single bars take Matplotlib half a minute.
    """
    tops = np.cumsum(heights, axis=1)
    left = np.arange(len(heights))[:, None] - 0.425 + 0 * tops
    x = np.stack([left, left + 0.85, left + 0.85, left], axis=-1)
    y = np.stack([tops - heights, tops - heights, tops, tops], axis=-1)
    corners = np.stack([x, y], axis=-1).reshape(-1, 4, 2)
    colours = shades.reshape(-1, shades.shape[-1])
    ax.add_collection(
        PolyCollection(list(corners), facecolors=colours, linewidths=0, rasterized=True)
    )
    ax.autoscale_view()
    ax.set_ylim(bottom=0)


def sweep(record: Record) -> Figure:
    """Neurons of one feature, and computed features, over density."""
    data = record.data
    figure, axes = new_figure(1, 2, width=PAGE, height=2.3)
    sparsity = 1 / data.sweep_density.values
    shown = (
        (monosemantic(data), BLUE, "monosemantic share\nof used neurons", "neurons become shared"),
        (computed(data), GREEN, "computed features\nper pair of neurons", "what is computed"),
    )
    for ax, (rows, colour, label, title) in zip(axes[0], shown, strict=True):
        known = np.isfinite(rows).any(axis=1)  # a density may have no network with a neuron in use
        if not known.any():  # an empty panel has no limits of which a logarithm could be taken
            ax.set_xlim(sparsity.min(), sparsity.max())
        mean_curve(ax, sparsity[known], rows[known], colour, each=True, marker="o", markersize=3)
        ax.set(xscale="log", xlabel="1 / density $p$", ylabel=label, title=title)
        reference_line(ax, y=1)
        ax.set_ylim(bottom=0)
    n, m = data.sizes["sweep_feature"], data.sizes["sweep_neuron"]
    seeds = data.sizes["sweep_seed"]
    figure.suptitle(f"{n} features, {m} neurons; {seeds} seeds, t interval 95 %", fontsize=8)
    letter_panels(axes[0])
    return figure


def motif(record: Record) -> Figure:
    """Ratios of the input and output weights of every asymmetric motif."""
    data = record.data
    figure, axes = new_figure(1, 1, width=COLUMN, height=3.3)
    ax = axes[0, 0]
    x, y = data.case_in_ratio.values, data.case_out_ratio.values
    ends = np.array([1, max([20, *x, *y])])
    ax.plot(ends, ends, color=GREY, linewidth=0.7, linestyle=":")
    marks = []
    for i, (p, colour) in enumerate(zip(data.motif_density.values, (PINK, BLUE), strict=False)):
        here = data.case_cell.values == i
        ax.scatter(x[here], y[here], s=9, color=colour, alpha=0.6, linewidths=0)
        count = len(np.unique(data.case_seed.values[here]))
        text = f"$p$ = {p:g}: in {count} of {data.sizes['motif_seed']} networks"
        marks.append(
            Line2D([], [], marker="o", linestyle="", markersize=3, color=colour, label=text)
        )
    ax.plot([4], [4], "D", color=ORANGE, markersize=5)
    ax.set(xscale="log", yscale="log", xlabel="input weights: strong / weak feature")
    ax.set_ylabel("output weights: weak / strong feature")
    marks += [
        Line2D([], [], marker="D", linestyle="", color=ORANGE, label="published example"),
        Line2D([], [], color=GREY, linestyle=":", label="equal service of both"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=1)
    return figure


FIGURES = (
    FigureSpec(
        "neurons",
        neurons,
        message="Dense features: each neuron serves one feature.",
        caption="The sparser, the more features share a neuron, first the unimportant ones.",
        refuted="This is refuted if the bars of sparse panels have one colour each.",
    ),
    FigureSpec(
        "sweep",
        sweep,
        message="The share of neurons with one feature falls as features become sparse, but no "
        "more features are computed than there are pairs of neurons.",
        refuted="This is refuted if the first curve is flat, or the mean of the second rises "
        "above the dotted line.",
    ),
    FigureSpec(
        "motif",
        motif,
        message="Two features share a neuron unequally, with reverse weights in and out.",
        refuted="This is refuted if the dots lie far from the diagonal, or if there is none.",
    ),
)
