"""The phase diagram of superposition: what is read from the record, and its figures; no JAX."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.interpolate import RegularGridInterpolator

from circuitax.figures.palette import BLACK, PHASE_COLOURS
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.sample import Sample, best_of, exactly, resampled
from circuitax.superposition.polytopes import phases
from experiments.superposition.shared.crossing import crossing
from experiments.superposition.shared.phase_axes import (
    TRIPLE_OF_FORMULAS,
    formula_borders,
    phase_axes,
)

TEN = 10  # networks of a cell, over which the paper averages
PAIRED = "n=2, m=1"
AXES = ("importance", "density")
SOURCES = {"theory": "simple formulas", "optimum": "exact optimum", "trained": "trained, best of"}
TRIPLE_PROVEN = 0.7064  # where the regions meet, as `phase_proof` encloses it for two features
FINE = 256  # points a side at which a coarse diagram is drawn
DEDICATED, SUPERPOSED = (to_rgb(PHASE_COLOURS[name]) for name in ("dedicated", "superposed"))


def triple_point(data: xr.Dataset) -> Sample:
    """Density at which ignoring and sharing tie in closed form, ``p²/3 = p/3 - p²/4``."""
    p = np.linspace(0.5, 0.65, 4001)
    shared, ignored = p**2 / 3, p / 3 - p**2 / 4
    return exactly(crossing(p, shared - ignored))


def optimum_over_formulas(data: xr.Dataset) -> Sample:
    """Greatest ratio of the optimal loss to that of the best closed form."""
    return exactly(float((data.optimum_loss / data.optimum_closed_form).max()))


def regions_of_optimum(data: xr.Dataset) -> Sample:
    """Share of cells in which the exact optimum is in the region of the closed forms."""
    return exactly((_regions(data, "optimum") == _regions_in_theory(data, "optimum")).mean())


def regions_of_tens(data: xr.Dataset) -> Sample:
    """Share of cells whose region is that of ten networks without the worst, mean of all tens."""
    theory = _regions_in_theory(data, "trained")
    return resampled(
        lambda seeds: float((_regions_of_tens(data, seeds) == theory).mean()), data.sizes["seed"]
    )


def regions_of_best(data: xr.Dataset) -> Sample:
    """Share of cells in which the best of all networks is in the region of the closed forms."""
    seeds = data[["seeds_loss", "seeds_norm", "seeds_interference"]].transpose("seed", ...)
    same = _regions(seeds, "seeds") == _regions_in_theory(data, "trained")
    return best_of(seeds.seeds_loss.values, same)


def _regions_of_tens(data: xr.Dataset, seeds: np.ndarray) -> np.ndarray:
    """Phase of the last feature by the mean norm and interference of each ten, ``[ten, *cells]``.

    The network with the highest loss is left out of a ten, in every cell by itself.
    """
    loss, norm, interference = (
        data[f"seeds_{name}"].transpose("seed", ...).values
        for name in ("loss", "norm", "interference")
    )
    means = []
    for ten in np.array_split(seeds, max(1, len(seeds) // TEN)):
        kept = np.argsort(loss[ten], axis=0)[: max(1, len(ten) - 1)]
        both = norm[ten], interference[ten]
        means.append([np.take_along_axis(of, kept, axis=0).mean(axis=0) for of in both])
    return phases(*np.stack(means, axis=1))


def _regions(data: xr.Dataset, source: str) -> np.ndarray:
    """Phase of the last feature in every cell of one picture."""
    return phases(data[f"{source}_norm"], data[f"{source}_interference"])


def _regions_in_theory(data: xr.Dataset, source: str) -> np.ndarray:
    """The same by the closed forms, at the nearest points of their own, finer grid."""
    nearest = data[["theory_norm", "theory_interference"]].sel(
        {f"{axis}_theory": data[f"{axis}_{source}"] for axis in AXES}, method="nearest"
    )
    return _regions(nearest.transpose("model", *(f"{axis}_{source}" for axis in AXES)), "theory")


def phase(data: xr.Dataset) -> Figure:
    """Two models by three sources, coloured by the phase of the last feature."""
    figure, axes = new_figure(2, 4, height=4.3, width_ratios=[1, 1, 1, 0.6])
    for row, model in enumerate(data.model.values):
        for column, (source, title) in enumerate(SOURCES.items()):
            ax = axes[row, column]
            picture = _picture(data.sel(model=model), source)
            ax.pcolormesh(*picture, shading="nearest", rasterized=True)
            formula_borders(ax, BLACK, paired=model == PAIRED)
            _triple_point(ax, source, str(model))
            phase_axes(ax)
            if row == 0:
                ax.set_title(title + (f" {data.sizes['seed']}" if source == "trained" else ""))
                ax.set_xlabel("")
            if column == 0:
                ax.set_ylabel(f"{model}\nimportance of the last feature")
    _colour_map(axes[0, 3])
    _legend(axes[1, 3])
    letter_panels([axes[0, 0], axes[1, 0]])
    return figure


def region_colour(norm: np.ndarray, interference: np.ndarray) -> np.ndarray:
    """White where the feature is ignored, blue where dedicated, orange where superposed."""
    presence = np.clip(norm, 0, 1)[..., None]
    shared = np.clip(interference, 0, 1)[..., None]
    hue = (1 - shared) * np.array(DEDICATED) + shared * np.array(SUPERPOSED)
    return 1 - presence + presence * hue


def _picture(data: xr.Dataset, source: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Densities, importances and colours of a panel; linear between the logarithms of a grid."""
    grid = [data[f"{axis}_{source}"].values for axis in AXES]
    parts = [data[f"{source}_{name}"].values for name in ("norm", "interference")]
    if source == "theory":
        return grid[1], grid[0], region_colour(*parts)
    fine = [np.geomspace(axis[0], axis[-1], FINE) for axis in grid]
    # Powers of ends may miss them by a rounding.
    logs = [np.clip(np.log(f), *np.log(axis[[0, -1]])) for f, axis in zip(fine, grid, strict=True)]
    points = np.stack(np.meshgrid(*logs, indexing="ij"), axis=-1)
    between = [RegularGridInterpolator([np.log(a) for a in grid], part)(points) for part in parts]
    return fine[1], fine[0], region_colour(*between)


def _triple_point(ax: Axes, source: str, model: str) -> None:
    """The formulas' point on their own panels; the proven one of two features on the others."""
    if source == "theory":
        ax.plot([TRIPLE_OF_FORMULAS], [1], "o", color=BLACK, markersize=3.5)
    elif model == PAIRED:
        edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.6}
        ax.plot([TRIPLE_PROVEN], [1], "*", color=BLACK, markersize=8, **edge)


def _legend(ax: Axes) -> None:
    """Swatches of the regions, and what lines and points are."""
    ax.set_axis_off()
    swatch: dict[str, Any] = {"edgecolor": BLACK, "linewidth": 0.5}
    point: dict[str, Any] = {"color": BLACK, "linestyle": "none"}
    proven, formulas = f"{TRIPLE_PROVEN:.3f}", f"{TRIPLE_OF_FORMULAS:.3f}"
    handles = [
        Patch(facecolor="white", label="ignored:\nnot stored", **swatch),
        Patch(facecolor=DEDICATED, label="dedicated: has a\ndimension of its own", **swatch),
        Patch(facecolor=SUPERPOSED, label="superposed:\nshares one", **swatch),
        Line2D([], [], color=BLACK, linewidth=0.9, label="borders by the\nformulas"),
        Line2D([], [], marker="o", markersize=3.5, label=f"they meet at {formulas}", **point),
        Line2D([], [], marker="*", markersize=7, label=f"proven: {proven}", **point),
    ]
    place: dict[str, Any] = {"loc": "center", "bbox_to_anchor": (0.42, 0.5), "borderaxespad": 0}
    ax.legend(handles=handles, fontsize=6.5, handlelength=1.1, **place)


def _colour_map(ax: Axes) -> None:
    """The colour map itself in steps of an eighth: presence upwards, sharing to the right."""
    steps = np.linspace(0, 1, 9)  # a picture has too few colours for smooth ones in two directions
    presence, shared = np.meshgrid(steps, steps, indexing="ij")
    ax.pcolormesh(shared[0], presence[:, 0], region_colour(presence, shared), rasterized=True)
    ax.set_xticks([0, 1], ["0\nalone", "1\nshared"])
    ax.set_yticks([0, 1], ["0\nignored", "1\nkept"])
    ax.set(xlabel="interference", ylabel=r"norm $\|W_n\|$")
    ax.set_box_aspect(1.2)
    ax.spines[:].set_visible(True)
