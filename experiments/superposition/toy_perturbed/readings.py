"""One feature's density decides whether five features form a pentagon or two digons."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from circuitax.figures.marks import legend_above, reference_line
from circuitax.figures.palette import BLACK, GREY, ORANGE, POLYTOPE_COLOURS
from circuitax.figures.style import letter_panels, new_figure
from circuitax.records.sample import Absent, NotRun, Sample, best_of, exactly, mean_of, share_of
from circuitax.superposition.polytopes import align, angles, gaps
from experiments.superposition.shared.cell_readings import of_best
from experiments.superposition.shared.figure_polytopes import arrows
from experiments.superposition.shared.random_weights import at_start
from experiments.superposition.shared.transitions import transitions

# A feature is represented when its norm is above this.
REPRESENTED = 0.5
# Two digons have the last feature at 0: its norm is at most this.
ABSENT = 0.1
# A quarter of 72 degrees, by which the gaps of a pentagon may be uneven, and so may its norms: the
# least is this much of the greatest.
UNEVEN, EVEN_NORMS = 18.0, 0.75
# Two features of a digon are at least this nearly opposite, and those of two digons at most this
# nearly alike or opposite: their cosines, of 172 degrees, and of 15 from a right angle.
ANTIPODAL, UPRIGHT = -0.99, float(np.sin(np.radians(15)))
PRINTED = 2.5
TICKS = [0.1, 0.2, 0.5, 1, 2, 4]
COLOURS = (POLYTOPE_COLOURS["digon"], POLYTOPE_COLOURS["pentagon"])


WORLDS = {"untrained": at_start}


def snap_factor(data: xr.Dataset) -> Sample:
    """How many times sparser the feature is where the exact branches cross."""
    return exactly(1 / _crossing(data))


def snap_ratio(data: xr.Dataset) -> Sample:
    """Ratio of densities at which the exact branches cross."""
    return exactly(_crossing(data))


def kink(data: xr.Dataset, steps_on: int = 0) -> Sample:
    """Slope of the lowest exact loss before the step of the crossing over that after it, less 1.

    Slopes are over the logarithm of the ratio, in the steps next to it, or to one some steps on.
    """
    step = int(np.searchsorted(data.exact_ratio.values, _crossing(data))) - 1 + steps_on
    losses = data.exact_loss.transpose("branch", "exact_ratio").values
    lowest = np.fmin.reduce(np.where(np.isfinite(losses), losses, np.nan))
    slopes = np.diff(lowest) / np.diff(np.log(data.exact_ratio.values))
    if not 1 <= step < len(slopes) - 1:
        raise Absent("the branches cross at an end of the ratios")
    return exactly(slopes[step - 1] / slopes[step + 1] - 1)


def norm_jump(data: xr.Dataset, steps_on: int = 0) -> Sample:
    """Rise of the feature's norm in the best networks over the step of the crossing, or a later."""
    i = int(np.searchsorted(data.ratio.values, _crossing(data))) - 1 + steps_on
    cells = data.isel(ratio=[i, i + 1]).transpose("seed", "ratio", ...)
    norms = np.linalg.norm(cells.W.values, axis=2)[..., -1]
    return best_of(cells.loss.values, norms, over=lambda pair: float(np.diff(pair)[0]))


def as_exact(data: xr.Dataset) -> Sample:
    """Share of ratios whose best network is of the exact branch that is lower there."""
    agree = np.where(data.ratio.values > _crossing(data), is_pentagon(data), is_digons(data))
    return best_of(data.loss.transpose("seed", "ratio").values, agree)


def rarer_kind(data: xr.Dataset) -> Sample:
    """Share of the rarer of pentagons and two digons among the seeds at ratio 0.3."""
    _crossing(data)
    cell = data.sel(ratio=[0.3])
    kinds = np.stack([is_digons(cell)[:, 0], is_pentagon(cell)[:, 0]])
    return share_of(kinds[kinds.sum(axis=1).argmin()])


def bend(data: xr.Dataset, ratio: float) -> Sample:
    """The perturbed feature's gap that bends less, where all five are, less the even one."""
    _crossing(data)
    cell, less_bent = data.sel(ratio=[ratio]), np.min if ratio > 1 else np.max
    kept = cell.W.values[:, 0][has_all_five(cell)[:, 0]]
    if len(kept) < 2:
        raise Absent("fewer than two networks represent all five features")
    return mean_of([less_bent(own_gaps(W)) - 72 for W in kept])


def exact_crossing(ratio: xr.DataArray, losses: np.ndarray) -> float:
    """The ratio at which the lower of the exact branches changes; NaN if it does not."""
    changes = transitions(np.log(ratio.values), losses)
    return float(np.exp(changes[0])) if changes.size else float("nan")


def has_all_five(data: xr.Dataset) -> np.ndarray:
    """Whether a network represents all five features, ``[seed, ratio]``."""
    return (np.linalg.norm(data.W.values, axis=2) > REPRESENTED).all(axis=-1)


def is_pentagon(data: xr.Dataset) -> np.ndarray:
    """Whether a network represents all five features evenly, ``[seed, ratio]``."""
    W = data.W.values
    norm = np.linalg.norm(W, axis=2)
    between = np.array([[gaps(each) for each in row] for row in W])
    even = (np.abs(between - 72) <= UNEVEN).all(axis=-1)
    even &= norm.min(axis=-1) >= EVEN_NORMS * norm.max(axis=-1)
    found: np.ndarray = has_all_five(data) & even
    return found


def is_digons(data: xr.Dataset) -> np.ndarray:
    """Whether a network is two upright antipodal pairs without the last, ``[seed, ratio]``."""
    norm = np.linalg.norm(data.W.values, axis=2)
    others = data.W.values[..., :-1] / np.maximum(norm[..., None, :-1], 1e-12)
    cosine = np.swapaxes(others, -1, -2) @ others
    opposite = cosine <= ANTIPODAL
    apart = opposite | np.eye(cosine.shape[-1], dtype=bool) | (np.abs(cosine) <= UPRIGHT)
    kept = (norm[..., :-1] > REPRESENTED).all(axis=-1) & (norm[..., -1] <= ABSENT)
    found: np.ndarray = kept & opposite.any(axis=-1).all(axis=-1) & apart.all(axis=(-2, -1))
    return found


def own_gaps(W: np.ndarray) -> np.ndarray:
    """Angles from the perturbed feature to its two neighbours, in degrees."""
    turned = (angles(W) - angles(W)[-1]) % 360
    others = np.sort(turned[:-1])
    return np.array([others[0], 360 - others[-1]])


def _crossing(data: xr.Dataset) -> float:
    """Where the exact branches cross, in a run of the published density."""
    complete = {0.3, 0.4, 4.0} <= set(data.ratio.values.tolist())
    if not complete or data.attrs["density"] != 0.05:
        raise NotRun("this run has other ratios or densities")
    at = exact_crossing(data.exact_ratio, data.exact_loss.values)
    if not np.isfinite(at) or not data.alive.all():
        raise Absent("the exact branches do not cross, or a network diverged")
    return at


def branches(data: xr.Dataset) -> Figure:
    """Losses over the ratio, and the crossing ratio over density."""
    density = data.attrs["density"]
    figure, axes = new_figure(1, 2, height=2.6, width_ratios=[1.35, 1])
    left, right = axes[0]
    x, loss = data.exact_ratio.values, data.exact_loss.values
    for name, row, colour in zip(data.branch.values, loss, COLOURS, strict=True):
        left.plot(x, np.where(np.isfinite(row), row, np.nan), color=colour, label=f"exact {name}")
    ratio = np.broadcast_to(data.ratio.values, data.loss.shape)
    label = f"{len(ratio)} trained networks a ratio"
    dots = {"markersize": 3.5, "color": BLACK, "fillstyle": "none", "markeredgewidth": 0.5}
    left.plot(ratio.ravel(), data.loss.values.ravel(), "o", label=label, **dots)
    at = exact_crossing(data.exact_ratio, loss)
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
    line = {"color": BLACK, "markersize": 3, "label": "exact crossing"}
    logs = np.log(data.base_loss.transpose("base", "branch", "base_ratio").values)  # a coarse grid
    over_base = [exact_crossing(data.base_ratio, each) for each in logs]
    right.plot(data.base.values, over_base, "o-", **line)
    reference_line(right, y=1 / PRINTED, label="printed, 1/2.5")
    reference_line(right, x=density, style="dashed", colour=GREY)
    right.set(xlabel="density of the other four features", ylabel="crossing ratio", ylim=(0, 1))
    right.legend(loc="upper left", fontsize=6)
    letter_panels(axes[0])
    legend_above(figure, left, 3)
    return figure


def solutions(data: xr.Dataset) -> Figure:
    """Columns of W of the best network at each ratio, rotated alike; the perturbed one upwards."""
    weights = of_best(data.W, data.best)
    figure, axes = new_figure(1, len(weights), height=1.15)
    for ax, W, ratio in zip(axes[0], weights, data.ratio.values, strict=True):
        arrows(ax, upright(W), [GREY] * (W.shape[1] - 1) + [ORANGE])
        ax.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
        ax.set_title(f"{ratio:g}", fontsize=7)
    best_of_all = f"(best of {data.sizes['seed']} seeds)"
    figure.suptitle(f"density of one feature / that of the others {best_of_all}", fontsize=7)
    names = (("the others", GREY), ("the perturbed feature", ORANGE))
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
