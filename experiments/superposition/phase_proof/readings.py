"""Proofs of the phase diagram of two features, and of pentagon and digons; no JAX."""

import numpy as np
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from circuitax.figures.palette import BLACK, GREY, PHASE_COLOURS
from circuitax.figures.style import COLUMN, new_figure
from circuitax.records.estimate import Estimate
from circuitax.records.sample import NotRun, Sample, exactly, sample
from circuitax.superposition.polytopes import phases
from experiments.superposition.shared.phase_axes import (
    TRIPLE_OF_FORMULAS,
    formula_borders,
    phase_axes,
)

# A proven class as one of the phases; both kinds of superposition are one.
PHASE_OF = {"ignored": "ignored", "dedicated": "dedicated", "antipodal": "superposed"}
SLACK = 1e-12  # rounding of an exact loss
RARE = 0.3  # greatest density of boundaries that a row is about
COLOURS = {**PHASE_COLOURS, "": "#D9D9D9"}


def grid(data: xr.Dataset) -> dict[str, Sample]:
    """What is proven of every point of the grid, and whether optimiser and balls agree."""
    data = _proven(data)
    named = proven_phases(data)
    proven, n = named != "", named.size
    lower, upper, loss = (data[k].values for k in ("lower", "upper", "optimiser_loss"))
    inside = (loss >= lower - SLACK) & (loss <= upper + SLACK)
    W = data.optimiser_W.values
    best = phases(np.abs(W[..., 1]), np.where(W[..., 1] != 0, W[..., 0] ** 2, 0.0)).astype(str)
    same = (best == named)[proven].mean()
    return {
        "proof-classes": exactly(proven.mean(), n),
        "proof-losses": exactly((upper - lower <= 1e-6).mean(), n),
        "proof-optimiser-class": exactly(same, proven.sum()),
        "proof-optimiser-loss": exactly(inside[proven].mean(), proven.sum()),
        "proof-balls": exactly(data.n_wrong.sum(), int(data.n_repeated.sum())),
    }


def triple_point(data: xr.Dataset) -> Sample:
    """How much denser than 4/7 the minimisers at importance 1 cease to be symmetric pairs."""
    return _enclosure(_proven(data).triple.values - TRIPLE_OF_FORMULAS)


def crossing(data: xr.Dataset) -> Sample:
    """The density at which the best pentagon overtakes two digons."""
    return _enclosure(_proven(data).crossing.values)


def least_jump(data: xr.Dataset) -> Sample:
    """Least jump of the last feature's norm that the proofs leave at rare boundaries."""
    data = _proven(data)
    rare = data.line.values <= RARE
    if not rare.any():
        raise NotRun(f"no density of {RARE} or less was looked at")
    low, high = (float(end) for end in norm_jumps(data)[:, rare].min(axis=1))
    low = max(low, 0.0)
    return sample(Estimate(low, low, high, int(rare.sum()), "proven range"))


def _proven(data: xr.Dataset) -> xr.Dataset:
    """A run that had the library of balls."""
    if data.attrs["missing"]:
        raise NotRun(f"no balls: {data.attrs['missing']}")
    return data


def proven_phases(data: xr.Dataset) -> np.ndarray:
    """The phase that is proven at each point of the grid, empty where none is."""
    possible = data.possible.transpose("density", "importance", "class")
    names = np.array([PHASE_OF.get(str(name), "") for name in data["class"].values])
    number = possible.values.argmax(axis=-1)
    return np.where(possible.values.sum(axis=-1) == 1, names[number], "")


def norm_jumps(data: xr.Dataset) -> np.ndarray:
    """Least and greatest jump of the last feature's norm that the proofs leave, ``[2, line]``.

    Where a boundary is not enclosed, any jump is left.
    """
    norm = np.sqrt(data.boundary_second.transpose("side", "end", "line").values)
    (below_low, below_high), (above_low, above_high) = norm
    left = np.stack([above_low - below_high, above_high - below_low])
    return np.where(np.isnan(left), np.array([[-np.inf], [np.inf]]), left)


def _enclosure(ends: np.ndarray) -> Sample:
    low, high = (float(end) for end in ends)
    return sample(Estimate((low + high) / 2, low, high, 1, "proven enclosure"))


def proof(data: xr.Dataset) -> Figure:
    """The proven diagram, with its boundary and its triple point."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=3.3)
    ax, named = axes[0, 0], proven_phases(data)
    p, r = data.density.values, data.importance.values
    colours = np.array([[to_rgb(COLOURS[name]) for name in row] for row in named])
    ax.pcolormesh(p, r, colours.transpose(1, 0, 2), shading="nearest", rasterized=True)
    open_ = np.nonzero(named == "")
    ax.plot(p[open_[0]], r[open_[1]], "x", color=BLACK, markersize=3, linestyle="none")
    formula_borders(ax, GREY, paired=True, label="closed forms")
    ax.plot([TRIPLE_OF_FORMULAS], [1], "o", color=GREY, markersize=4, fillstyle="none")
    line, middle = data.line.values, np.sqrt(data.boundary.prod("side", skipna=False).values)
    ax.plot(line, middle, ".", color=BLACK, markersize=5, label="boundary, between two proofs")
    ax.plot(line, 1 / middle, ".", color=BLACK, markersize=5)  # its mirror image
    place = data.triple.values.mean()
    ax.plot([place], [1], "*", color=BLACK, label=f"triple point, $p = {place:.4f}$")
    phase_axes(ax)
    ax.set_ylabel("importance of the last feature")
    ax.text(0.93, 0.125, "ignored", va="center")
    ax.text(0.93, 8.0, "dedicated", va="center", color="white")
    ax.text(0.012, 3.0, "superposed", va="center", ha="right", color="white")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=6.5)
    return figure
