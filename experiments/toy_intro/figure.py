"""Five features in two dimensions: sparsity decides how many are kept, and in which figure.

arrows      Dense: two orthogonal features; sparser: two digons; sparser still: a pentagon.
            Refuted if the best trained network of a column has another figure than the optimum.
loss        One seed often ends in a local minimum; the best of ten does not.
            Refuted if the line of the best seed leaves the shaded 5 % at some density.
crossover   The pentagon overtakes two digons at one density, which importance moves.
            Refuted if a curve does not cross one, or crosses it away from its published mark.
"""

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.style import (
    BLACK,
    BLUE,
    COLUMN,
    DIVERGING,
    GREY,
    ORANGE,
    PAGE,
    letter_panels,
    new_figure,
    styled,
)
from circuitax.records.record import Record

PUBLISHED_CROSSOVER = {0.9: 0.160}
COLOURS = (BLUE, ORANGE)


@styled
def draw(record: Record) -> dict[str, Figure]:
    """The figures that this run has the arrays for."""
    data = record.data
    figures = {"weights": arrows(data) if data.sizes["hidden"] == 2 else grams(data)}
    if "optimum_loss" in data:
        figures["loss"] = loss(data)
    if "digon_loss" in data:
        figures["crossover"] = crossover(data)
    return figures


def arrows(data: xr.Dataset) -> Figure:
    """Columns of W as arrows, the best seed above the exact optimum, one column a density."""
    rows = _rows(data)
    n = data.sizes["sparsity"]
    figure, axes = new_figure(len(rows), n, width=PAGE, height=0.32 + 0.62 * len(rows))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, data.sizes["feature"]))
    longest = max(float(np.linalg.norm(W, axis=-2).max()) for _, W in rows)
    reach = 1.08 * max(1.0, longest)
    for row, (label, weights) in enumerate(rows):
        for column, ax in enumerate(axes[row]):
            ax.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach), xticks=[], yticks=[])
            ax.spines[:].set_visible(False)
            ax.axhline(0, color="#DDDDDD", linewidth=0.4)
            ax.axvline(0, color="#DDDDDD", linewidth=0.4)
            for feature in reversed(range(weights.shape[-1])):
                x, y = weights[column][:, feature]
                ax.plot([0, x], [0, y], color=colours[feature], linewidth=1.3,
                        marker="o", markevery=[1], markersize=2)  # fmt: skip
            if row == 0:
                ax.set_title(f"{1 - float(data.sparsity[column]):.3g}", fontsize=7)
        axes[row, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=7)
    figure.suptitle("density $p = 1 - S$", fontsize=8)
    names = [f"feature {i}" for i in range(data.sizes["feature"])]
    lines = [Line2D([], [], color=c, label=n) for c, n in zip(colours, names, strict=True)]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    return figure


def grams(data: xr.Dataset) -> Figure:
    """``WᵀW`` of the best seed and of the exact optimum, one column a density."""
    rows = _rows(data)
    n = data.sizes["sparsity"]
    figure, axes = new_figure(len(rows), n, width=PAGE, height=0.4 + 0.62 * len(rows))
    for row, (label, weights) in enumerate(rows):
        for column, ax in enumerate(axes[row]):
            W = weights[column]
            image = ax.imshow(W.T @ W, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)
            ax.set(xticks=[], yticks=[])
            if row == 0:
                ax.set_title(f"{1 - float(data.sparsity[column]):.3g}", fontsize=7)
        axes[row, 0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=7)
    figure.suptitle("density $p = 1 - S$", fontsize=8)
    # All panels share one scale; the last image carries it.
    figure.colorbar(image, ax=axes, label=r"$W^\top W$", shrink=0.8)
    return figure


def loss(data: xr.Dataset) -> Figure:
    """Excess over the exact optimum for every seed, and the share of seeds that reach it."""
    figure, axes = new_figure(1, 2, height=2.3)
    excess, share = axes[0]
    p = 1 - data.sparsity.values
    for colour, base in zip(COLOURS, data.importance_base.values, strict=False):
        cell = data.sel(importance_base=base)
        above = 100 * (cell.loss.values / cell.optimum_loss.values - 1)
        label = "uniform importance" if base == 1 else f"importance ${base:g}^i$"
        jitter = 0.985 if base == 1 else 1.015
        excess.plot(np.tile(p * jitter, above.shape[0]), above.ravel(), ".", color=colour,
                    markersize=2.5, alpha=0.6)  # fmt: skip
        excess.plot(p, np.nanmin(above, axis=0), color=colour, label=f"best seed, {label}")
        reached = above <= 5
        k, n = reached.sum(axis=0), reached.shape[0]
        low, high = _wilson(k, n)
        share.errorbar(p * jitter, k / n, yerr=[k / n - low, high - k / n], fmt="o-", color=colour,
                       linewidth=1, markersize=3, capsize=2)  # fmt: skip
    excess.axhspan(0.01, 5, color=GREY, alpha=0.15, linewidth=0, label="counted as reached")
    excess.plot([], [], ".", color=GREY, label="each seed")
    excess.set(xscale="log", yscale="log", xlabel="density $p$", ylim=(0.01, None))
    excess.set(ylabel="loss above the exact optimum (%)")
    share.set(xscale="log", xlabel="density $p$", ylim=(-0.03, 1.03))
    share.set(ylabel="seeds within 5 % of the optimum")
    for ax in axes[0]:
        ax.invert_xaxis()
        ax.set_xticks([1, 0.5, 0.2, 0.1, 0.05], ["1", "0.5", "0.2", "0.1", "0.05"])
        ax.minorticks_off()
    share.set_title(f"n = {data.sizes['seed']} seeds, Wilson 95 %", fontsize=7)
    letter_panels(axes[0])
    figure.legend(*excess.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    return figure


def crossover(data: xr.Dataset) -> Figure:
    """Loss of the pentagon over that of two digons, both exact."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.3)
    ax = axes[0, 0]
    p = data.crossover_density.values
    ax.axhline(1, color=BLACK, linewidth=0.6)
    for colour, base in zip(COLOURS, data.importance_base.values, strict=False):
        cell = data.sel(importance_base=base)
        ratio = cell.pentagon_loss.values / cell.digon_loss.values
        label = "uniform importance" if base == 1 else f"importance ${base:g}^i$"
        ax.plot(p, np.where(np.isfinite(ratio), ratio, np.nan), color=colour, label=label)
        if float(base) in PUBLISHED_CROSSOVER:
            ax.plot([PUBLISHED_CROSSOVER[float(base)]], [1], "v", color=colour, markersize=5,
                    label="reference value")  # fmt: skip
    ax.set(xlabel="density $p$", ylabel="pentagon loss / two-digon loss")
    ax.invert_xaxis()
    ax.legend(loc="lower left")
    return figure


def _rows(data: xr.Dataset) -> list[tuple[str, np.ndarray]]:
    """Label and weights ``[sparsity, hidden, feature]`` of every row of panels."""
    rows = []
    for base in data.importance_base.values:
        cell = data.sel(importance_base=base)
        name = "uniform" if base == 1 else f"$I={base:g}^i$"
        best = np.maximum(cell.best.values, 0)
        weights = cell.W.values[best, np.arange(len(best))]
        rows.append((f"{name}\nbest of {data.sizes['seed']}", weights))
        if "optimum_W" in data:
            rows.append((f"{name}\noptimum", cell.optimum_W.values))
    return rows


def _wilson(k: np.ndarray, n: int, z: float = 1.959964) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval for k of n, to draw bars without importing SciPy."""
    centre = (k + z**2 / 2) / (n + z**2)
    half = z * np.sqrt(k * (n - k) / n + z**2 / 4) / (n + z**2)
    return np.minimum(centre - half, k / n), np.maximum(centre + half, k / n)
