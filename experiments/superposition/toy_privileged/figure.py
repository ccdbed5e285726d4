"""Do features align with neurons when the hidden layer has a ReLU?"""

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import interval_bars, spread
from circuitax.figures.palette import BLACK, DIVERGING
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.estimate import share_estimate
from circuitax.records.record import Record
from experiments.superposition.toy_privileged.measures import reached


def weights(record: Record) -> Figure:
    """``W`` of the best restart, neurons in rows, monosemantic ones first."""
    data = record.data
    n = data.sizes["density"]
    columns = min(3, n)
    rows = -(-n // columns)
    figure, axes = new_figure(rows, columns, width=PAGE, height=0.5 + 1.35 * rows)
    for ax in axes.flat[n:]:
        ax.set_axis_off()
    for i, ax in zip(range(n), axes.flat, strict=False):
        cell = data.isel(density=i)
        W = cell.best_W.values[neuron_order(cell)]
        image = ax.imshow(W, cmap=DIVERGING, vmin=-1.2, vmax=1.2, aspect="auto", rasterized=True)
        alone, shared = int(cell.best_monosemantic.sum()), int(cell.best_polysemantic.sum())
        kept = int(cell.best_represented.sum())
        p = float(cell.density)
        title = f"$p$ = {p:g}: {alone} mono, {shared} poly, {kept} features"
        ax.set_title(title, fontsize=7)
        ax.set_xticks(range(0, data.sizes["feature"], 2))
        ax.set_yticks(range(len(W)), [str(k + 1) for k in range(len(W))])
    for ax in axes[-1]:
        ax.set_xlabel("feature, most important first")
    for ax in axes[:, 0]:
        ax.set_ylabel("neuron")
    figure.colorbar(image, ax=axes, label="$W$", shrink=0.8)
    figure.suptitle(
        f"sparser features share neurons (best of {data.sizes['restart']} restarts)", fontsize=8
    )
    return figure


def restarts(record: Record) -> Figure:
    """Excess loss of every restart over the best one, and how many come within 1 %."""
    data = record.data
    figure, axes = new_figure(1, 2, width=PAGE, height=2.5, width_ratios=[2, 1])
    excess, share = axes[0]
    most = data.sizes["neuron"]
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.95, most + 1))
    for i in range(data.sizes["density"]):
        cell = data.isel(density=i)
        above = 100 * (cell.loss.values / np.nanmin(cell.loss.values) - 1)
        order = np.argsort(above)
        dots = colours[cell.monosemantic.values[order]]
        excess.scatter(i + spread(len(order), 0.35), above[order], s=6, c=dots, linewidths=0)
    labels = [f"{p:g}" for p in data.density.values]
    found = [share_estimate(cell) for cell in reached(data).transpose("density", "restart").values]
    interval_bars(share, np.arange(len(found)), found, colour=BLACK, fmt="o", markersize=3)
    excess.set(ylabel="loss above the best restart (%)", title="restarts end in many minima")
    excess.set_yscale("symlog", linthresh=1)
    excess.set_ylim(bottom=0)
    share.set(ylabel="restarts within 1 % of the best", title="few find the best")
    share.set_ylim(-0.03, 1.03)
    for ax in axes[0]:
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlabel("density $p$")
    marks = [
        Line2D([], [], marker="o", linestyle="", markersize=3, color=c, label=str(k))
        for k, c in enumerate(colours)
    ]
    n = data.sizes["restart"]
    title = f"monosemantic neurons (each dot one of {n} restarts); right: Wilson 95 %"
    figure.legend(handles=marks, loc="outside lower center", ncols=len(marks), title=title)
    letter_panels(axes[0])
    return figure


def neuron_order(cell: xr.Dataset) -> np.ndarray:
    """Monosemantic neurons first, by their feature; the others by their strongest feature."""
    strongest = np.abs(cell.best_W.values).argmax(axis=1)
    return np.lexsort((strongest, ~cell.best_monosemantic.values))


FIGURES = (
    FigureSpec(
        "weights",
        weights,
        message="Dense features have one neuron each; sparser ones share neurons, until every "
        "neuron serves several.",
        refuted="This is refuted if the matrices of sparse columns have one large entry in each "
        "row.",
    ),
    FigureSpec(
        "restarts",
        restarts,
        message="Most restarts end in worse solutions, with other numbers of monosemantic neurons.",
        refuted="This is refuted if the dots of sparse columns lie at zero.",
    ),
)
