"""Five features in two dimensions: what is read from the record, and its figures."""

from collections.abc import Callable

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLACK, DIVERGING, PINK
from circuitax.figures.style import COLUMN, new_figure
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    exactly,
    mean_of,
    mean_of_those_finite,
    resampled,
    share_of,
)
from circuitax.superposition.polytopes import align, gaps
from experiments.superposition.shared.cell_readings import of_best, place_of
from experiments.superposition.shared.crossing import crossing
from experiments.superposition.shared.figure_polytopes import arrows
from experiments.superposition.shared.phase_axes import density_axis
from experiments.superposition.shared.random_weights import at_start

# A network has found the optimum when its loss is at most 5 % above it.
TOLERANCE = 0.05
# Densities of the published figure; 0.514 and 0.0973 have neighbours that rows name.
PUBLISHED = 20 ** -np.linspace(0, 1, 10)
# A feature is represented when its norm is above the first, and dropped up to the second.
REPRESENTED, DROPPED = 0.5, 0.05
# Greatest distance of a pentagon's gaps from 72 degrees.
GAP_MISS = 4.0
COLOURS = (BLACK, PINK)  # falling importance, uniform


WORLDS = {"untrained": at_start}


def reached(data: xr.Dataset) -> xr.DataArray:
    """Whether a network has found the optimum of its cell; not if it diverged."""
    return data.loss <= (1 + TOLERANCE) * data.optimum_loss


def share_that_looks(data: xr.Dataset, like: str, density: float) -> Sample:
    """Share of networks at a density whose weights look as the paper's panel does."""
    cell = _cell(data, density)
    return share_of([LOOKS[like](W) for W in cell.W.values[cell.alive.values]])


def dense(data: xr.Dataset) -> dict[str, Sample]:
    """Two orthogonal features and three ignored ones, of networks that reached the optimum."""
    cell = _cell(data, 1)
    which = reached(cell).values
    if which.sum() < 2:
        raise Absent("fewer than two networks found the optimum")
    W, b = cell.W.values[which], cell.b.values[which]
    norms = np.linalg.norm(W, axis=1)
    misses = np.abs(norms[:, :2] - 1).mean(axis=1)
    cosine = np.sum(W[:, :, 0] * W[:, :, 1], axis=1) / norms[:, :2].prod(axis=1)
    return {
        # A few networks miss by much: around a mean of distances an even interval reaches below 0.
        "T1-norms": resampled(lambda seeds: float(misses[seeds].mean()), len(misses)),
        "T1-others": mean_of(norms[:, 2:].max(axis=1)),
        "T1-bias": mean_of(b[:, 2:].mean(axis=1)),
        "T1-angle": mean_of(np.abs(np.degrees(np.arccos(cosine)) - 90)),
    }


def published_loss(data: xr.Dataset) -> Sample:
    """Mean loss of a seed over the ten published densities."""
    data = _published(data)
    return mean_of_those_finite(data.loss.mean("sparsity").values / data.sizes["feature"])


def share_that_misses(data: xr.Dataset) -> Sample:
    """Share of single networks that miss the optimum; cells share their seeds, n counts seeds."""
    return mean_of(1 - reached(_published(data)).mean("sparsity").values)


def pentagon_norm(data: xr.Dataset) -> dict[str, Sample]:
    """Mean norm of the optimal pentagon's features, equal importances; ``1 / (1 - b)`` over it."""
    cell = _cell(data, 0.05, base=1.0)
    norm = np.linalg.norm(cell.optimum_W.values, axis=0).mean()
    return {
        "E18-norm-rule": exactly(1 / (1 - cell.optimum_b.values.mean()) / norm),
        "E18-pentagon-norm": exactly(norm),
    }


def crossover_density(data: xr.Dataset, base: float) -> Sample:
    """The density at which the pentagon's loss falls below that of two digons."""
    data = _of(data, base)
    ratio = data.pentagon_loss.values / data.digon_loss.values
    finite = np.isfinite(ratio)
    return exactly(crossing(data.crossover_density.values[finite], ratio[finite] - 1))


def _of(data: xr.Dataset, base: float = 0.9) -> xr.Dataset:
    """The part of one importance, of a run of five features in two dimensions."""
    there = "crossover_density" in data.dims and "optimum_loss" in data
    if not there or base not in data.importance_base.values:
        raise NotRun("this run has other sizes or importances, or no exact optimum")
    return data.sel(importance_base=base)


def _cell(data: xr.Dataset, density: float, base: float = 0.9) -> xr.Dataset:
    """The part of one density."""
    data = _of(data, base)
    return data.isel(sparsity=place_of(density, data.density))


def _published(data: xr.Dataset) -> xr.Dataset:
    """The part of the ten published densities."""
    data = _of(data)
    there = [np.isclose(p, PUBLISHED, atol=1e-3).any() for p in data.density.values]
    if sum(there) != len(PUBLISHED):
        raise NotRun("this run has other densities than the ten published ones")
    return data.isel(sparsity=there)


def _two_digons(W: np.ndarray) -> bool:
    """Whether the represented features have two antipodal pairs."""
    norms = np.linalg.norm(W, axis=0)
    kept = norms > REPRESENTED
    directions = W[:, kept] / norms[kept]
    return int((np.triu(directions.T @ directions, 1) < -0.98).sum()) == 2


def _four_represented(W: np.ndarray) -> bool:
    """Whether the least important feature is dropped, the last, and no other."""
    *important, last = np.linalg.norm(W, axis=0)
    return bool(last <= DROPPED and min(important) > REPRESENTED)


def _pentagon(W: np.ndarray) -> bool:
    """Whether neighbours are as far apart as in a pentagon."""
    return bool(np.abs(gaps(W) - 72).max() <= GAP_MISS)


LOOKS: dict[str, Callable[[np.ndarray], bool]] = {
    "two digons": _two_digons,
    "four represented": _four_represented,
    "pentagon": _pentagon,
}


def weights(data: xr.Dataset) -> Figure:
    """Columns of W as arrows, or ``WᵀW``: the best seed above the exact optimum, over density.

    Arrows, in two dimensions, are rotated so that neighbours can be compared, and features that
    count the same may change places: the loss sees neither. Of densities that almost agree one is
    shown.
    """
    data = data.isel(sparsity=apart(data.density.values))
    plane, rows = data.sizes["hidden"] == 2, solutions(data)
    if plane:
        rows = rotated_alike(rows, data.importance_base.values)
    size = (len(rows), data.sizes["sparsity"])
    figure, axes = new_figure(*size, height=0.35 + 0.62 * len(rows))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, data.sizes["feature"]))
    reach = 1.08 * max(1.0, *(np.linalg.norm(W, axis=-2).max() for _, W in rows))
    for panels, (label, row) in zip(axes, rows, strict=True):
        panels[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=7)
        for ax, W in zip(panels, row, strict=True):
            ax.set(xticks=[], yticks=[])
            if plane:
                arrows(ax, W, list(colours))
                ax.set(aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach))
            else:
                image = ax.imshow(W.T @ W, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)
    for ax, p in zip(axes[0], data.density.values, strict=True):
        ax.set_title(f"{p:.3g}", fontsize=7)
    figure.suptitle("density $p = 1 - S$", fontsize=8)
    if plane:
        lines = [Line2D([], [], color=c, label=f"feature {i}") for i, c in enumerate(colours)]
        figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    else:  # all panels share one scale; the last image carries it
        figure.colorbar(image, ax=axes, label=r"$W^\top W$", shrink=0.8)
    return figure


def crossover(data: xr.Dataset) -> Figure:
    """Loss of the pentagon over that of two digons, both exact."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.3)
    ax, p = axes[0, 0], data.crossover_density.values
    reference_line(ax, y=1, style="solid")
    for colour, base in zip(COLOURS, data.importance_base.values, strict=False):
        cell = data.sel(importance_base=base)
        ratio = cell.pentagon_loss.values / cell.digon_loss.values
        ax.plot(p, np.where(np.isfinite(ratio), ratio, np.nan), color=colour, label=_label(base))
    ax.set_ylabel("pentagon loss / two-digon loss")
    density_axis(ax, [0.25, 0.2, 0.15])
    ax.legend(loc="lower left")
    return figure


def apart(density: np.ndarray) -> list[int]:
    """Places of the densities that differ from the one kept before by more than a tenth."""
    kept: list[int] = []
    for place, p in enumerate(density):
        if not kept or p < 0.9 * density[kept[-1]]:
            kept.append(place)
    return kept


def rotated_alike(
    rows: list[tuple[str, np.ndarray]], bases: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """Each solution turned to that of the next sparser density, the sparsest to the last row's.

    A trained network is turned to the exact optimum of its density, which stands below it.
    """
    of_base, reference = len(rows) // len(bases), rows[-1][1][-1]
    turned: list[tuple[str, np.ndarray]] = []
    for number, (label, weights) in reversed(list(enumerate(rows))):
        row, permute = [reference], bool(bases[number // of_base] == 1)
        for column in reversed(range(len(weights))):
            goal = turned[-1][1][column] if (number + 1) % of_base else row[-1]
            row.append(align(weights[column], goal, permute=permute).W)
        turned.append((label, np.array(row[:0:-1])))
    return turned[::-1]


def solutions(data: xr.Dataset) -> list[tuple[str, np.ndarray]]:
    """Label and weights ``[sparsity, hidden, feature]`` of every row of panels."""
    rows = []
    for base in data.importance_base.values:
        cell = data.sel(importance_base=base)
        rows.append((f"{_label(base)}\nbest of {data.sizes['seed']}", of_best(cell.W, cell.best)))
        if "optimum_W" in data:
            rows.append((f"{_label(base)}\noptimum", cell.optimum_W.values))
    return rows


def _label(base: float) -> str:
    return "uniform" if base == 1 else f"$I={base:g}^i$"
