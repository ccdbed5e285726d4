"""Nearly orthogonal directions: growth, coherence, decoding, and the figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import interval_bars
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import COLUMN, letter_panels, new_figure, sample_note
from circuitax.records.estimate import Estimate, slope_estimate
from circuitax.records.sample import Sample, exactly, mean_of, mean_of_those_finite


def untaught(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """Random sets of directions, drawn anew, in the place of trained ones."""
    coherence = data.coherence.copy()
    order = rng.integers(data.sizes["seed"], size=data.sizes["seed"])
    coherence.loc[{"kind": "learned"}] = coherence.sel(kind="random").isel(seed=order).values
    return data.assign(coherence=coherence)


WORLDS = {"random directions": untaught}


def growth_rate(data: xr.Dataset, name: str) -> Estimate:
    """Slope of ln N against d: of ``random``, ``greedy`` or ``optimised`` directions."""
    counts = data[name]
    dims = counts[counts.dims[0]]
    return slope_estimate(np.repeat(dims.values, counts.shape[1]), np.log(counts.values))


def share_of_bound(data: xr.Dataset) -> Sample:
    """Largest share of a bound that a packing found reaches."""
    return exactly((data.optimised.max("seed") / data.bound).max())


def way_to_optimum(data: xr.Dataset) -> Sample:
    """Share of the way from random to optimised sets that training goes in the largest cosine."""
    signed = data.coherence.sel(measure="signed")
    start = signed.sel(kind="random").mean("seed")
    goal = signed.sel(kind="optimised").min("seed")
    return mean_of((start - signed.sel(kind="learned")) / (start - goal))


def over_welch(data: xr.Dataset) -> Sample:
    """Mean squared overlap of trained features over Welch's bound for as many."""
    n, m = data.n_represented, data.width
    welch = (n - m) / (m * (n - 1))
    frame = data.coherence.sel(kind="learned", measure="mean_square") / welch.where(n > m)
    return mean_of_those_finite(frame)


def reach(data: xr.Dataset) -> Sample:
    """Largest k decoded half of the time over the k that coherence guarantees."""
    decoded, n_active = data.decoded.values, data.n_active.values
    most = np.where(decoded >= 0.5, n_active, 0).max(axis=1)
    return mean_of(most / np.maximum(data.guaranteed.values, 1))


def capacity(data: xr.Dataset) -> Figure:
    """Number of directions against dimension, far out and close in."""
    eps = data.attrs["epsilon"]
    figure, axes = new_figure(1, 2, height=2.6)
    left, middle = axes[0]
    _spread(left, data.random_dim, data.random, ORANGE, "random, until a pair fails")
    left.plot(data.random_dim, data.random_law, color=ORANGE, linewidth=1, label="birthday law")
    _spread(left, data.greedy_dim, data.greedy, BLUE, "greedy")
    left.set(yscale="log", ylim=(3, 2e4), xlabel="dimension $d$")
    left.set_ylabel(rf"directions with $|\cos| \leq {eps:g}$")
    left.legend(loc="upper left")
    dims = data.optimised_dim.values
    middle.plot(dims, data.bound, "--", color=BLACK, linewidth=1, label="Welch, Levenshtein")
    _spread(middle, data.optimised_dim, data.optimised, GREEN, "optimised")
    near = data.greedy.where(data.greedy_dim <= dims[-1], drop=True)
    _spread(middle, near.greedy_dim, near, BLUE, "greedy")
    middle.plot(dims, dims, ":", color=GREY, linewidth=1, label="orthogonal: $d$")
    ticks = [3, 10, 30, 100]
    middle.set(yscale="log", xlabel="dimension $d$", xticks=dims, ylim=(3, 600))
    middle.set_yticks(ticks, ticks)
    middle.minorticks_off()
    middle.legend(loc="upper left")
    letter_panels(axes[0])
    trials, seeds = data.sizes["trial"], data.sizes["seed"]
    sample_note(figure, f"median and middle half of {trials} random and {seeds} other sets")
    return figure


def decoding(data: xr.Dataset) -> Figure:
    """Share of trials decoded without an error against the number of active features."""
    figure, axes = new_figure(1, 1, width=COLUMN, height=2.3)
    ax = axes[0, 0]
    k = data.n_active.values
    shade = {"color": GREY, "alpha": 0.25, "linewidth": 0, "label": "guaranteed by coherence"}
    ax.axvspan(0.5, float(data.guaranteed.min()) + 0.5, **shade)
    for each in data.decoded.values:
        ax.plot(k, each, ".", color=BLUE, markersize=2, alpha=0.4)
    mean, n = data.decoded.mean("dictionary"), data.sizes["dictionary"]
    ax.plot(k, mean, "o", color=BLUE, markersize=3.5, label=f"threshold decoding, mean of {n}")
    features, dim = data.attrs["decode_features"], data.attrs["decode_dim"]
    size = f"{features} features in {dim} dimensions"
    ax.set(xlabel="active features $k$", ylabel="trials without an error", title=size)
    ax.set(ylim=(0, 1.05), xlim=(0.5, k[-1] + 0.5))
    ax.legend(loc="upper right")
    return figure


def _spread(ax: Axes, dims: xr.DataArray, counts: xr.DataArray, colour: str, label: str) -> None:
    """Median with the middle half of the repetitions."""
    quartiles = np.quantile(counts.values, [0.25, 0.5, 0.75], axis=1).T
    n = counts.shape[1]
    found = [Estimate(middle, low, high, n, "middle half") for low, middle, high in quartiles]
    dots: dict[str, Any] = {"fmt": "o", "markersize": 3.5, "linewidth": 0.8}
    interval_bars(ax, dims.values, found, colour=colour, label=label, **dots)
