"""One-hot data and regular k-gons: what is read from the record, and its figures; no JAX."""

from typing import NamedTuple

import matplotlib
import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import zero_line
from circuitax.figures.palette import BLUE, GREY, ORANGE
from circuitax.figures.style import COLUMN, new_figure
from circuitax.records.sample import Absent, Sample, exactly, share_of

# k: norm l*, bias b*, L at c = k.
TABLE = {4: (1.0, 0.0, 0.0), 5: (1.17046, -0.28230, 0.01583), 6: (1.32053, -0.61814, 0.04819)}
# (k, c, features left out that have a positive bias): L.
LEFT_OUT = {
    **{(4, 5, 0): 0.06667, (4, 5, 1): 0.05667},
    **{(4, 6, 0): 0.11111, (4, 6, 1): 0.10417, (5, 6, 0): 0.06874},
}
# A curvature counts as 0 below this; the least of all others is 0.0027, of the 8-gon.
LEVEL = 1e-6
# A network rests between two measurements if its loss falls by less than FLAT of itself within SPAN
# of training. Its level is close to a k-gon's loss within CLOSE of it.
FLAT, SPAN, CLOSE = 0.01, 0.05, 0.005
MARKS = "osD^vP*Xd"


class Plateau(NamedTuple):
    """One resting place of one network; begin and end are steps."""

    seed: int
    begin: float
    end: float
    level: float


def other_levels(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Each network's loss times a factor: it ends between a k-gon's least loss and its start's."""
    loss = data.loss.transpose("step", "seed")
    least, start = float(kgon_losses(data).min()), loss[0].values
    end = np.exp(rng.uniform(np.log(least), np.log(start)))
    return data.assign(loss=loss * (end / loss[-1].values))


WORLDS = {"other levels": other_levels}


def table(data: xr.Dataset, turned: int = 0) -> dict[str, Sample]:
    """Greatest distance from the printed numbers, with polygons in turn in each other's place."""
    norm, bias, own = np.array(list(TABLE.values())).T
    at = data.sel(k=np.roll(list(TABLE), turned))
    found = [data.potential.sel(k=k, n_features=k, positive=0) for k in at.k.values]
    left_out = [data.potential.sel(k=k, n_features=c, positive=n) for k, c, n in LEFT_OUT]
    missed = np.abs(np.roll(left_out, turned) - list(LEFT_OUT.values()))
    return {
        "T9-norm": exactly(np.abs(at.norm - norm).max()),
        "T9-bias": exactly(np.abs(at.bias - bias).max()),
        "T9-potential": exactly(np.abs(np.array(found) - own).max()),
        "T9-dead": exactly(missed.max()),
    }


def slope(data: xr.Dataset) -> Sample:
    """Largest entry of the gradient at a k-gon of its own k features."""
    return exactly(data.slope.max())


def miscounted(data: xr.Dataset, turned: int = 0) -> Sample:
    """Error of the printed number of curvatures above 0, 3k - 1, or of those below, which is 0.

    Polygons stand in turn in each other's place.
    """
    wrong, polygons = 0, data.k.values[1:]  # the 4-gon has drives of exactly 0, at which they jump
    for k, at in zip(polygons, np.roll(polygons, turned), strict=True):
        curvatures = data.curvature.sel(k=at).values
        up, down = (int((sign * curvatures > LEVEL).sum()) for sign in (1, -1))
        wrong = max(wrong, abs(up - (3 * int(k) - 1)), down)
    return exactly(wrong)


def resting(data: xr.Dataset) -> dict[str, Sample]:
    """Shares of the networks that rest which do so at k-gons only, and at a smaller one first."""
    losses, kept = kgon_losses(data), data.isel(seed=np.flatnonzero(data.alive.values))
    found: dict[int, list[int]] = {}
    for one in plateaus(kept.step.values, kept.loss.transpose("step", "seed").values):
        found.setdefault(one.seed, []).append(nearest_kgon(one.level, losses))
    if not found:
        raise Absent("no network rests anywhere")
    rows = [np.array(at) for at in found.values()]
    higher = [bool(((at[:-1] >= 0) & (at[:-1] < at[-1])).any()) for at in rows]
    return {
        "T9-plateaus": share_of([bool((at >= 0).all()) for at in rows]),
        "T9-higher-first": share_of(higher),
    }


def plateaus(step: np.ndarray, loss: np.ndarray) -> list[Plateau]:
    """All resting places of all networks of losses ``[step, seed]`` at evenly spaced steps.

    Those that overlap are one, whose level is the median of the loss; the last one of a network is
    where training ends.
    """
    lag = max(1, round(SPAN * (step.size - 1)))
    found = []
    for seed, curve in enumerate(loss.T):
        windows = np.lib.stride_tricks.sliding_window_view(curve, lag + 1)
        rests = np.ptp(windows, axis=1) < FLAT * windows.mean(axis=1)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], rests, [False]]).astype(int)))
        for first, after in edges.reshape(-1, 2):
            last = after - 1 + lag
            level = float(np.median(curve[first : last + 1]))
            found.append(Plateau(seed, float(step[first]), float(step[last]), level))
    return found


def kgon_losses(data: xr.Dataset) -> xr.DataArray:
    """The loss of the k-gon of each k up to c, where features left out have their best bias.

    Each of these lowers the potential by ``1/(4 c^2)``, with the bias ``1/(2c)``.
    """
    n_features = int(data.attrs["trained"])
    h = data.h.sel(vertices=data.vertices <= n_features)
    left_out = n_features - h.vertices
    return (h + left_out) / (3 * n_features) - left_out / (4 * n_features**2)


def nearest_kgon(level: float, losses: xr.DataArray) -> int:
    """The k whose loss is within `CLOSE` of a level, or -1."""
    distance = np.abs(losses.values - level) / losses.values
    best = int(distance.argmin())
    return int(losses.vertices.values[best]) if distance[best] <= CLOSE else -1


def kgons(data: xr.Dataset) -> Figure:
    """By how much potentials of k-gons exceed the lowest, over c."""
    ks, cs = data.k.values, data.n_features.values
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(ks)))
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.4)
    ax = axes[0, 0]
    lowest = data.potential.min(("positive", "k")).values
    zero_line(ax)
    for k, colour, mark in zip(ks, colours, MARKS, strict=False):
        best = data.potential.sel(k=k).min("positive").values
        line = {"color": colour, "linewidth": 1, "label": f"{k}-gon"}
        ax.plot(cs[cs >= k], (best - lowest)[cs >= k], mark + "-", **line)
    ax.set(xlabel="features $c$", ylabel="$L(k, c)$ above the lowest", ylim=(-3e-4, 2))
    # Linear up to 0.001, so that 0 and differences of 0.0003 are seen beside 0.05.
    ax.set_yscale("symlog", linthresh=1e-3)
    ax.legend(ncols=3, loc="upper left")
    return figure


def training(data: xr.Dataset) -> Figure:
    """Losses over training beside those of k-gons."""
    figure, axes = new_figure(1, 1, height=2.8)
    ax = axes[0, 0]
    losses = kgon_losses(data)
    step, loss = data.step.values, data.loss.transpose("step", "seed").values
    ax.plot(step, loss, color=BLUE, linewidth=0.6, alpha=0.5)
    for k, level in zip(losses.vertices.values[2:], losses.values[2:], strict=True):
        ax.axhline(level, color=GREY, linewidth=0.8, linestyle="--", zorder=0)
        ax.text(step[-1], level, f" {k}-gon", fontsize=6.5, va="center")
    for one in plateaus(step, loss):
        colour = BLUE if nearest_kgon(one.level, losses) >= 0 else ORANGE
        ax.plot([(one.begin + one.end) / 2], [one.level], "o", color=colour, markersize=3)
    ax.plot([], [], "o", color=BLUE, markersize=3, label="rests at a k-gon's loss")
    ax.plot([], [], "o", color=ORANGE, markersize=3, label="rests elsewhere")
    ax.set(xlabel="step", ylabel="exact loss $L$", yscale="log", xlim=(0, step[-1]))
    ax.set_yticks([0.05, 0.1, 0.2, 0.3], ["0.05", "0.1", "0.2", "0.3"])
    ax.minorticks_off()
    ax.legend(loc="upper right", fontsize=6.5)
    return figure
