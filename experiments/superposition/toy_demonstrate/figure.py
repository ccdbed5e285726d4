"""Linear models keep five features; ReLU models store more of them, the sparser they are."""

from typing import Any, SupportsFloat

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLACK, BLUE, DIVERGING, GREEN, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, headline, letter_panels, new_figure
from circuitax.records.record import Record
from experiments.superposition.toy_demonstrate.claims import COUNTS, NOTEBOOK_COUNTS
from experiments.superposition.toy_demonstrate.measures import (
    REPRESENTED,
    best_weights,
    represented,
)


def small(record: Record) -> Figure:
    """W^T W with the bias beside it, and norms coloured by interference; columns are densities."""
    data = record.data
    linear, relu = best_weights(data, "linear"), best_weights(data)
    best = np.maximum(data.relu_best.values, 0)
    biases = data.relu_b.values[best, np.arange(best.size)]
    last = len(relu) - 1
    linear_bias = data.linear_b.values[max(int(data.linear_best[last]), 0), last]
    titles = ["linear", *(f"$p$ = {p:g}" for p in data.density.values)]
    rows: list[tuple[str, list[Any], list[Any]]] = [
        ("trained\n$W^\\top W$, b", [linear[last], *relu], [linear_bias, *biases]),
        (
            "lowest exact loss\n$W^\\top W$, b",
            [None, *data.optimum_W.values],
            [None, *data.optimum_b.values],
        ),
    ]
    figure, axes = new_figure(4, len(titles), width=PAGE, height=3.9)
    for row, (label, weights, bias) in enumerate(rows):
        for column, W in enumerate(weights):
            ax, bars = axes[2 * row, column], axes[2 * row + 1, column]
            if W is None:
                ax.set_axis_off()
                bars.set_axis_off()
                continue
            image = _gram(ax, W.T @ W, bias[column])
            colours = _norm_bars(bars, W)
            if row == 0:
                ax.set_title(titles[column], fontsize=7)
        first = 0 if row == 0 else 1
        axes[2 * row, first].set_ylabel(label, fontsize=6.5)
        axes[2 * row + 1, first].set_ylabel("feature", fontsize=6.5)
    axes[3, 1].set_xlabel("norm", fontsize=6.5)
    seeds = data.sizes["seed"]
    n, m = data.sizes["feature"], data.sizes["hidden"]
    figure.suptitle(
        f"{n} features in {m} dimensions: sparser features share dimensions "
        f"(lowest exact loss of {seeds} seeds)",
        fontsize=8,
    )
    figure.colorbar(image, ax=axes[:2], label="entry", shrink=0.9)
    figure.colorbar(colours, ax=axes[2:], label="interference", shrink=0.9)
    return figure


def scaled(record: Record) -> Figure:
    """W^T W of the best network of the larger model, and norms of every seed."""
    data = record.data
    grams = data.scaled_gram.values
    figure, axes = new_figure(2, len(grams), width=PAGE, height=2.1)
    for column, gram in enumerate(grams):
        image = axes[0, column].imshow(gram, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)
        axes[0, column].set(xticks=[], yticks=[])
        axes[0, column].set_title(f"$p$ = {data.density.values[column]:g}", fontsize=7)
        ax = axes[1, column]
        ax.plot(
            data.scaled_norm.values[:, column].T,
            color=BLUE,
            linewidth=0.4,
            alpha=0.4,
            rasterized=True,
        )
        ax.set(ylim=(0, 1.3), yticks=[0, 1] if column == 0 else [], xticks=[0, gram.shape[0] - 1])
        ax.tick_params(labelsize=6)
    axes[0, 0].set_ylabel("$W^\\top W$", fontsize=7)
    axes[1, 0].set_ylabel("norm", fontsize=7)
    seeds = data.sizes["seed"]
    figure.suptitle(f"entries of the best of {seeds} seeds; norms of all", fontsize=8)
    figure.supxlabel("feature, most important first", fontsize=7)
    figure.colorbar(image, ax=axes[0], label="entry")
    return figure


def counts(record: Record) -> Figure:
    """Represented features over density: every seed, the optimum, and the published counts."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.5)
    left, right = axes[0]
    p = data.density.values
    kept = represented(data)
    mean_curve(left, p, kept.T, BLUE, label=f"mean of {len(kept)} seeds (95 % interval)", each=True)
    optimum = (np.linalg.norm(data.optimum_W.values, axis=1) > REPRESENTED).sum(axis=-1)
    left.plot(
        p, optimum, "s", color=GREEN, markersize=4, fillstyle="none", label="lowest exact loss"
    )
    ratio = data.sizes["scaled_hidden"] / data.sizes["hidden"]
    larger = (data.scaled_norm.values > REPRESENTED).sum(axis=-1) / ratio
    n, m = data.sizes["scaled_feature"], data.sizes["scaled_hidden"]
    mean_curve(left, p, larger.T, ORANGE, label=f"{n} in {m}, divided by {ratio:g}", linestyle="--")
    if data.sizes["feature"] == 20:
        left.plot(
            list(COUNTS), list(COUNTS.values()), "kx", markersize=4, label="published, one seed"
        )
    reference_line(left, y=data.sizes["hidden"], style="dotted")
    left.set_title(f"{data.sizes['feature']} features in {data.sizes['hidden']} dimensions")
    norms = data.notebook_norm.values
    q = data.notebook_density.values
    rows = (norms > REPRESENTED).sum(axis=-1).T
    mean_curve(right, q, rows, BLUE, label=f"mean of {len(norms)} seeds (95 % interval)", each=True)
    squares = (norms**2).sum(axis=-1).T
    mean_curve(right, q, squares, GREY, label=r"squared Frobenius norm", linestyle="--")
    if data.sizes["notebook_feature"] == 100:
        marks = [list(NOTEBOOK_COUNTS), list(NOTEBOOK_COUNTS.values())]
        right.plot(*marks, "kx", markersize=4, label="published, two runs")
    reference_line(right, y=data.sizes["notebook_hidden"], style="dotted")
    sizes = (data.sizes["notebook_feature"], data.sizes["notebook_hidden"])
    right.set_title("{} features in {} dimensions".format(*sizes))
    for ax in axes[0]:
        ax.set(xscale="log", xlabel="density $p = 1 - S$", ylabel="features with norm above 0.5")
        ax.invert_xaxis()
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(loc="upper left", fontsize=6)
    left.set_xticks(p, [f"{value:g}" for value in p])
    right.set_xticks(q, [f"{value:.2g}" for value in q])
    for ax in axes[0]:
        ax.minorticks_off()
    letter_panels(axes[0])
    printed: list[tuple[Mapping[float, SupportsFloat], np.ndarray, np.ndarray]]
    printed = [(COUNTS, p, kept)] if data.sizes["feature"] == 20 else []
    printed += [(NOTEBOOK_COUNTS, q, rows.T)] if data.sizes["notebook_feature"] == 100 else []
    inside = []
    for counted, at, found in printed:
        for density, count in counted.items():
            ours = found[:, np.abs(at - density).argmin()]
            inside.append(ours.min() <= float(count) <= ours.max())
    if inside:
        headline(
            figure,
            f"More features are represented the sparser they are; {sum(inside)} of {len(inside)} "
            "published counts lie within the range of our seeds",
        )
    return figure


def _gram(ax: Axes, gram: np.ndarray, bias: np.ndarray) -> AxesImage:
    """W^T W with the bias as one more column, after a gap."""
    n = len(gram)
    picture = np.full((n, n + 3), np.nan)
    picture[:, :n], picture[:, n + 1 :] = gram, bias[:, None]
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax.imshow(picture, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)


def _norm_bars(ax: Axes, W: np.ndarray) -> ScalarMappable:
    """Norms as horizontal bars, coloured by the squared interference of the paper's text."""
    norm = np.linalg.norm(W, axis=0)
    overlap = ((W / np.maximum(norm, 1e-6)).T @ W) ** 2
    interference = overlap.sum(axis=1) - np.diag(overlap)
    colours = ScalarMappable(Normalize(0, 1), SEQUENTIAL)
    ax.barh(np.arange(len(norm)), norm, color=colours.to_rgba(interference), height=0.9)
    ax.set(xlim=(0, 1.3), ylim=(len(norm) - 0.5, -0.5), xticks=[0, 1], yticks=[])
    ax.tick_params(labelsize=6)
    reference_line(ax, x=1, colour=BLACK)
    return colours


FIGURES = (
    FigureSpec(
        "small",
        small,
        message="Linear and dense ReLU models keep the five most important features, at right "
        "angles.",
        caption="Sparser features share dimensions, the less important ones first.",
        refuted="This is refuted if the linear column has entries off the first five of the "
        "diagonal, or if the best trained networks and the lowest exact loss show different "
        "patterns before the sparsest densities, at which training stops short of it.",
    ),
    FigureSpec(
        "scaled",
        scaled,
        message="Models of 80 features in 20 dimensions show the same patterns.",
        refuted="This is refuted if the order of the panels or their shapes differ from those of "
        "the small model.",
    ),
    FigureSpec(
        "counts",
        counts,
        message="The number of represented features rises with sparsity as published.",
        refuted="This is refuted where the dots of the seeds are away from the published marks.",
    ),
)
