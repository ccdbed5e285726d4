"""Phase diagrams of the last feature: ignored, superposed, or with a dimension of its own."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from circuitax.figures.palette import BLACK, BLUE, ORANGE, SEQUENTIAL
from circuitax.figures.spec import FigureSpec
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.record import Record

SOURCES = (
    ("theory", "closed forms"),
    ("optimum", "exact optimum"),
    ("trained", "trained, best of"),
)
TRIPLE_POINT = 4 / 7
CELLS: dict[str, Any] = {"shading": "nearest", "rasterized": True}


def phase(record: Record) -> Figure:
    """Two models by three sources, coloured by the phase of the last feature."""
    data = record.data
    figure, axes = new_figure(2, 4, height=4.3, width_ratios=[1, 1, 1, 0.5])
    for row, model in enumerate(data.model.values):
        for column, (source, title) in enumerate(SOURCES):
            ax = axes[row, column]
            norm = data[f"{source}_norm"].sel(model=model)
            overlap = data[f"{source}_interference"].sel(model=model)
            density, importance = norm[norm.dims[-1]].values, norm[norm.dims[-2]].values
            colours = region_colour(norm.values, overlap.values)
            ax.pcolormesh(density, importance, colours, **CELLS)
            _boundaries(ax, str(model))
            _axes(ax)
            if row == 0:
                n = f" {record.data.sizes['seed']}" if source == "trained" else ""
                ax.set_title(title + n)
            if row == 1:
                ax.set_xlabel(r"density $p = 1 - S$")
            if column == 0:
                ax.set_ylabel(f"{model}\nimportance of the last feature")
    for ax in axes[:, 0]:
        upper = ax is axes[0, 0]
        _name(ax, (0.93, 0.115 if upper else 0.13), "ignored", BLACK, "left", "bottom")
        _name(ax, (0.93, 9.3), "dedicated", "white", "left", "top")
        _name(ax, (0.012, 2 if upper else 0.4), "superposed", "white", "right", "center")
    _legend(axes[0, 3])
    _key(axes[1, 3])
    letter_panels([axes[0, 0], axes[1, 0]])
    return figure


def difference(record: Record) -> Figure:
    """By how many per cent the exact optimum is below the best closed form."""
    data = record.data
    figure, axes = new_figure(1, 2, height=2.5)
    for ax, model in zip(axes[0], data.model.values, strict=True):
        cell = data.sel(model=model)
        gain = 100 * (1 - cell.optimum_loss / cell.optimum_closed_form)
        density, importance = cell.density_optimum.values, cell.importance_optimum.values
        image = ax.pcolormesh(density, importance, gain.values, cmap=SEQUENTIAL, vmin=0, **CELLS)
        _boundaries(ax, str(model), "white")
        _axes(ax)
        ax.set(title=str(model), xlabel=r"density $p = 1 - S$")
        figure.colorbar(image, ax=ax, label="gain over the best closed form (%)")
    axes[0, 0].set_ylabel("importance of the last feature")
    letter_panels(axes[0])
    return figure


def region_colour(norm: np.ndarray, interference: np.ndarray) -> np.ndarray:
    """White where the feature is ignored, blue where dedicated, orange where superposed."""
    presence = np.clip(norm, 0, 1)[..., None]
    shared = np.clip(interference, 0, 1)[..., None]
    hue = (1 - shared) * np.array(to_rgb(BLUE)) + shared * np.array(to_rgb(ORANGE))
    return 1 - presence + presence * hue


def _boundaries(ax: Axes, model: str, colour: str = BLACK) -> None:
    """Boundary of equal loss of two closed forms (toy-models paper, phase section; derived)."""
    p = np.geomspace(0.01, TRIPLE_POINT, 200)
    low = 2 * p / (4 - 5 * p)
    line: dict[str, Any] = {"color": colour, "linewidth": 0.9}
    ax.plot(p, low, **line)
    if "n=2" in model:
        ax.plot(p, 1 / low, **line)
        ax.plot([TRIPLE_POINT, 1], [1, 1], **line)
    else:
        ax.plot([0.01, 1], [1, 1], **line)
    ax.plot([TRIPLE_POINT], [1], marker="o", markersize=3, color=colour)


def _axes(ax: Axes) -> None:
    ax.set(xscale="log", yscale="log", xlim=(1, 0.01), ylim=(0.1, 10))
    ax.set_xticks([1, 0.1, 0.01], ["1", "0.1", "0.01"])
    ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.minorticks_off()
    ax.spines[:].set_visible(True)


def _name(ax: Axes, at: tuple[float, float], text: str, colour: str, ha: str, va: str) -> None:
    ax.text(*at, text, color=colour, ha=ha, va=va, fontsize=6)


def _key(ax: Axes) -> None:
    """Meaning of the names of the regions, in words."""
    ax.set_axis_off()
    words = (
        (r"$\bf{ignored}$", "not stored"),
        (r"$\bf{dedicated}$", "a dimension\nof its own"),
        (r"$\bf{superposed}$", "shares one with\nanother feature"),
        ("● triple point", f"$p = {TRIPLE_POINT:.3f}$"),
    )
    for i, (name, meaning) in enumerate(words):
        ax.text(-0.25, 0.95 - 0.27 * i, f"{name}\n{meaning}", va="top", fontsize=7)


def _legend(ax: Axes) -> None:
    """The colour map itself in steps of an eighth: presence upwards, sharing to the right."""
    steps = np.linspace(0, 1, 9)  # a picture has too few colours for smooth ones in two directions
    presence, shared = np.meshgrid(steps, steps, indexing="ij")
    ax.pcolormesh(shared[0], presence[:, 0], region_colour(presence, shared), rasterized=True)
    ax.set_xticks([0, 1], ["0\nalone", "1\nshared"])
    ax.set_yticks([0, 1], ["0\nignored", "1\nkept"])
    ax.set(xlabel="interference", ylabel=r"norm $\|W_n\|$")
    ax.set_box_aspect(1.2)
    ax.spines[:].set_visible(True)


FIGURES = (
    FigureSpec(
        "phase",
        phase,
        message="Rare features are superposed; in closed form all regions meet at density 4/7.",
        caption="Closed forms, exact optimum and training show the same regions, away from their "
        "borders; the optimum's own triple point is denser (phase_proof).",
        refuted="This is refuted if the colours of a row disagree away from the black boundaries.",
        flagship=True,
    ),
    FigureSpec(
        "difference",
        difference,
        message="The exact optimum is better than the closed forms, whose weights are 0 and 1 "
        "only, near the triple point.",
        refuted="This is refuted if the gain is zero there, or large far from a boundary.",
    ),
)
