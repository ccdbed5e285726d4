"""Scaling with width: exponents, represented features, overlaps, and the figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import COLOURS, GREY
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.sample import Absent, NotRun, Sample, mean_of

STRONG, WEAK = -1.0, 0.5
REPRESENTED = 0.5
BETWEEN = (0.3, 0.6)
# A mode has this share of features at least, half of m/n at the smallest width.
LEAST_MODE = 0.005
ALPHA_COLOURS = dict(zip((0.0, 0.5, 1.0, 1.5, 2.0), COLOURS, strict=False))
BINS = np.linspace(0, 1.6, 33)
DOTS: dict[str, Any] = {"marker": "o", "markersize": 3}


def at_start(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Norms at the start, where entries have the variance ``1/m``."""
    dims = ("seed", "width", "arm", "feature")
    width = data.width.values[:, None, None]
    squares = rng.chisquare(width, [data.sizes[name] for name in dims]) / width
    return data.assign(norm=xr.DataArray(np.sqrt(squares), dims=dims))


def random_directions(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Mean squared overlaps of as many random directions, ``(|U Uᵀ|² - n) / (n (n - 1))``."""
    n, overlap = data.sizes["feature"], np.zeros((data.sizes["seed"], data.sizes["width"]))
    for place in np.ndindex(*overlap.shape):
        W = rng.standard_normal((int(data.width[place[1]]), n))
        unit = W / np.linalg.norm(W, axis=0)
        overlap[place] = (np.sum((unit @ unit.T) ** 2) - n) / (n * (n - 1))
    random = xr.DataArray(overlap, dims=("seed", "width")).expand_dims(arm=data.sizes["arm"])
    return data.assign(overlap=random)


WORLDS = {"untrained": at_start, "random directions": random_directions}


def arm(data: xr.Dataset, alpha: float, decay: float) -> xr.Dataset:
    """The runs of one law of frequencies and one decay."""
    at = np.flatnonzero((data.alpha.values == alpha) & (data.decay.values == decay))
    if not at.size or data.sizes["width"] < 3 or not data.alive.all():
        raise NotRun("this run has other arms or fewer widths, or networks that diverged")
    return data.isel(arm=int(at[0]))


def exponent(width: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Exponent of decay: minus the slope of log values over log width, ``[..., width]``."""
    at = np.log(width) - np.log(width).mean()
    return -(np.log(values) @ at) / (at @ at)


def represented(data: xr.Dataset) -> xr.DataArray:
    """Number of features of norm above 1/2."""
    return (data.norm > REPRESENTED).sum("feature")


def loss_exponent(data: xr.Dataset, alpha: float, decay: float) -> Sample:
    """Exponent by which loss falls with width, mean of seeds."""
    loss = arm(data, alpha, decay).loss.transpose("seed", "width").values
    return mean_of(exponent(data.width.values, loss))


def over_unlearned(data: xr.Dataset) -> Sample:
    """Loss over 4/3 of the frequencies of the features that are not represented, alpha = 2."""
    weak = arm(data, 2.0, WEAK)
    unlearned = (weak.density * (weak.norm <= REPRESENTED)).sum("feature")
    return mean_of((weak.loss / (4 / 3 * unlearned)).mean("width"))


def share_represented(data: xr.Dataset, decay: float) -> Sample:
    """Share of features with a norm above 1/2, alpha = 1."""
    share = represented(arm(data, 1.0, decay)).mean("width") / data.sizes["feature"]
    return mean_of(share, bounds=(0, 1))


def represented_over_width(data: xr.Dataset) -> Sample:
    """Features with a norm above 1/2 over m, decay 0.5, alpha = 1."""
    weak = arm(data, 1.0, WEAK)
    return mean_of((represented(weak) / weak.width).mean("width"))


def lever(data: xr.Dataset) -> Sample:
    """Share of represented features at decay -1 less that at 0.5, alpha = 1."""
    n = data.sizes["feature"]
    strong, weak = (represented(arm(data, 1.0, d)).mean("width") / n for d in (STRONG, WEAK))
    return mean_of(strong - weak)


def between_modes(data: xr.Dataset, decay: float) -> Sample:
    """Features between two modes of norms over those of the smaller mode, alpha = 1."""
    norm, dims = arm(data, 1.0, decay).norm, ["width", "feature"]
    below, above = (norm <= BETWEEN[0]).mean(dims), (norm >= BETWEEN[1]).mean(dims)
    smaller = np.minimum(below, above)
    if smaller.min() < LEAST_MODE:
        raise Absent("norms have no mode below 0.3")
    return mean_of((1 - below - above) / smaller)


def long_features(data: xr.Dataset) -> Sample:
    """Features of norm above 1 over ``m^2 / 2`` at the smallest width, decay -1, alpha = 1."""
    smallest = int(data.width[0])
    long = (arm(data, 1.0, STRONG).norm.sel(width=smallest) > 1).sum("feature")
    return mean_of(long / (smallest**2 / 2))


def overlap_exponent(data: xr.Dataset) -> Sample:
    """Exponent by which mean squared overlap falls with width, decay -1, alpha = 0."""
    overlap = arm(data, 0.0, STRONG).overlap.transpose("seed", "width").values
    return mean_of(exponent(data.width.values, overlap))


def scaling(data: xr.Dataset) -> Figure:
    """Loss over width in both regimes."""
    figure, axes = new_figure(1, 2, height=2.7)
    decays = data.decay.values
    width = data.width.values
    panels = ((axes[0, 0], decays.min(), "strong"), (axes[0, 1], decays.max(), "weak"))
    for ax, decay, name in panels:
        for alpha in data.alpha.values[decays == decay]:
            one = arm(data, alpha, decay)
            colour = ALPHA_COLOURS[float(alpha)]
            rows = one.loss.transpose("width", "seed").values
            label = rf"$\alpha$ = {alpha:g}"
            mean_curve(ax, width, rows, colour, label=label, each=True, **DOTS)
            if name == "weak":
                dashes = {"linestyle": "--", "linewidth": 0.8}
                ax.plot(width, one.ignored.values, color=colour, **dashes)
        ax.set(xscale="log", yscale="log", xlabel="width $m$")
        ax.set_title(rf"{name}: decay $\gamma$ = {decay:g}", fontsize=7)
        ax.set_xticks(width, [str(w) for w in width])
        ax.set_xticks([], minor=True)
    first = arm(data, data.alpha.values[decays == decays.min()][0], decays.min())
    start = float(first.loss.isel(width=0).mean())
    axes[0, 0].plot(width, start * width[0] / width, ":", color=GREY, label="1/m")
    axes[0, 1].plot([], [], "--", color=GREY, linewidth=0.8, label="tail beyond $m$")
    axes[0, 0].set_ylabel("loss (sum over features)")
    for ax, _, _ in panels:
        ax.set_ylim(ax.get_ylim()[0] / 3, None)
        ax.legend(fontsize=6, loc="lower left")
    letter_panels(axes[0])
    return figure


def geometry(data: xr.Dataset) -> Figure:
    """Share of represented features and norms over decay, and overlaps beside the Welch bound."""
    figure, axes = new_figure(1, 3, height=2.6)
    left, middle, right = axes[0]
    width, n = data.width.values, data.sizes["feature"]
    levers = data.isel(arm=np.flatnonzero(data.alpha.values == 1.0)).sortby("decay")
    share = represented(levers) / n
    for i, m in enumerate(width):
        rows = share.sel(width=m).transpose("arm", "seed").values
        mean_curve(left, levers.decay.values, rows, COLOURS[i], label=f"$m$ = {m}", **DOTS)
        reference_line(left, y=m / n, colour=COLOURS[i])
    left.plot([], [], ":", color=GREY, label="$m/n$")
    left.set(xlabel=r"decay $\gamma$", ylabel=r"share of features, norm > 1/2", ylim=(0, 1.05))
    left.legend(fontsize=6)
    middle_width = int(width[len(width) // 2])
    for i, decay in enumerate(levers.decay.values):
        norm = arm(levers, 1.0, decay).norm.sel(width=middle_width).values.ravel()
        shares, name = np.full(norm.size, 1 / norm.size), rf"$\gamma$ = {decay:g}"
        steps: dict[str, Any] = {"histtype": "step", "color": COLOURS[i], "label": name}
        middle.hist(np.minimum(norm, BINS[-1]), BINS, weights=shares, **steps)
    middle.set(xlabel="norm of a feature", ylabel="share of features", yscale="log")
    middle.set_title(rf"$\alpha$ = 1, $m$ = {middle_width}, {data.sizes['seed']} seeds", fontsize=7)
    middle.set_ylim(None, 3)
    middle.legend(fontsize=6, ncols=2, loc="upper center")
    strong = data.isel(arm=np.flatnonzero(data.decay.values == data.decay.values.min()))
    for alpha in strong.alpha.values:
        rows = arm(strong, alpha, float(strong.decay[0])).overlap.transpose("width", "seed").values
        colour = ALPHA_COLOURS[float(alpha)]
        mean_curve(right, width, rows, colour, label=rf"$\alpha$ = {alpha:g}", **DOTS)
    right.plot(width, data.welch.values, "--", color=GREY, label="Welch bound")
    right.plot(width, 1 / width, ":", color=GREY, label="1/m")
    right.set(xscale="log", yscale="log", xlabel="width $m$", ylabel="mean squared overlap")
    right.set_xticks(width, [str(w) for w in width])
    right.set_xticks([], minor=True)
    right.legend(fontsize=6, loc="lower left")
    sample_note(figure, f"a, c: mean and 95 % interval of {data.sizes['seed']} seeds")
    letter_panels(axes[0])
    return figure
