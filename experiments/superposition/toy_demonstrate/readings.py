"""Linear and ReLU models over sparsity: what is read from the record, and its figures."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLACK, BLUE, DIVERGING, GREEN, GREY, ORANGE, SEQUENTIAL
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.sample import Absent, NotRun, Sample, exactly, mean_of, resampled, share_of
from circuitax.records.worlds import shuffle
from circuitax.superposition.geometry.phases import Phase, phases
from circuitax.superposition.geometry.solution_class import polytopes
from experiments.superposition.shared.random_weights import normal_weights

# A feature is represented when its norm is above this.
REPRESENTED = 0.5
# A bias is negative, and interference positive, when it is this far from 0.
LEAST = 0.01
SIZES = (5, 80, 20, 100, 20)
COUNTS = {1.0: 5, 0.3: 7, 0.1: 9, 0.03: 10, 0.01: 11, 0.003: 11, 0.001: 12}
# Density, to two digits: features with norm above 0.5, the middle of two runs.
NOTEBOOK_COUNTS = {1.0: 20.0, 0.53: 24.0, 0.21: 37.0, 0.059: 50.5}


def at_start(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """As many networks at their start: the same at all densities of a seed, without biases."""
    shape = (data.sizes["seed"], 1, data.sizes["hidden"], data.sizes["feature"])
    W = normal_weights(rng, data.attrs["init_std"]["small"], *shape) + np.zeros(data.relu_W.shape)
    arrays = {"relu_W": W, "linear_W": W, "linear_b": np.zeros(data.linear_b.shape)}
    return data.assign({name: (data[name].dims, value) for name, value in arrays.items()})


def reordered(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The most important features, as many as dimensions, shuffled among themselves."""
    top = data.isel(feature=slice(data.sizes["hidden"]))
    return shuffle("feature", ["relu_W", "relu_interference"], ["seed", "density"])(top, rng)


WORLDS = {"untrained": at_start, "reordered": reordered}


def linear(data: xr.Dataset) -> dict[str, Sample]:
    """Principal components: the most important features, whatever the density is."""
    _require(data, 1.0)
    kept = np.arange(data.sizes["feature"]) < data.sizes["hidden"]
    miss = np.abs(_grams(data.linear_W) - np.diag(kept)).max(axis=(-2, -1))
    p = data.density.values
    off = np.abs(data.linear_b.values / (p[:, None] / 2) - ~kept)[:, p == 1].mean(axis=1)
    return {
        "T7-gram": mean_of(miss.max(axis=1)),
        "T7-bias": mean_of(off[:, off.mean(axis=0).argmax()]),
    }


def unlike_linear(data: xr.Dataset, density: float) -> Sample:
    """Greatest difference of an entry of W^T W between the ReLU model and the dense linear one."""
    _require(data, density)
    relu, dense = data.relu_W.sel(density=density), data.linear_W.sel(density=1)
    return mean_of(np.abs(_grams(relu) - _grams(dense)).max(axis=(-2, -1)))


def count(data: xr.Dataset, density: float) -> Sample:
    """Represented features at a density."""
    _require(data, density)
    return mean_of(represented(data.sel(density=[density]))[:, 0])


def five_digons(data: xr.Dataset) -> Sample:
    """Share of networks with five antipodal pairs, at density 0.03."""
    _require(data, 0.03)
    found = [[name for name, _ in polytopes(W)] for W in data.relu_W.sel(density=0.03).values]
    return share_of([names.count("digon") == 5 for names in found])


def later(data: xr.Dataset) -> Sample:
    """Places in importance by which superposed features stand behind dedicated ones.

    Of the most important alone: what lies beyond the dimensions has to share one.
    """
    _require(data, 0.3)
    cell = data.sel(density=0.3).isel(feature=slice(data.sizes["hidden"]))
    kinds = phases(np.linalg.norm(cell.relu_W.values, axis=1), cell.relu_interference.values)
    both = (kinds == Phase.superposed).any(axis=1) & (kinds == Phase.dedicated).any(axis=1)
    if not both.all():
        raise Absent("in some network all of these features are superposed, or none is")
    rank = np.arange(cell.sizes["feature"])
    return mean_of(
        [rank[k == Phase.superposed].mean() - rank[k == Phase.dedicated].mean() for k in kinds]
    )


def interference(data: xr.Dataset, density: float) -> dict[str, Sample]:
    """Shares of the represented features that have a negative bias, and positive interference."""
    _require(data, density)
    cell = data.sel(density=density)
    bias, positive = [], []
    for W, b in zip(cell.relu_W.values, cell.relu_b.values, strict=True):
        kept = np.linalg.norm(W, axis=0) > REPRESENTED
        gram = W[:, kept].T @ W[:, kept]
        bias.append((b[kept] <= -LEAST).mean())
        squares = np.maximum(gram - np.diag(np.diag(gram)), 0) ** 2
        positive.append((squares.sum(axis=0) >= LEAST).mean())
    shares = {"negative-bias": np.array(bias), "positive-interference": np.array(positive)}
    # An interval of a bootstrap stays within 0 and 1.
    return {
        f"demonstrate-{name}": resampled(lambda i, each=each: float(each[i].mean()), each.size)
        for name, each in shares.items()
    }


def rescaled(data: xr.Dataset) -> Sample:
    """Greatest difference between the represented features per dimension of both sizes."""
    _require(data, 0.3)
    small = represented(data) / data.sizes["hidden"]
    large = (data.scaled_norm.values > REPRESENTED).sum(axis=-1) / data.sizes["scaled_hidden"]
    return resampled(
        lambda i: float(np.abs(large[i].mean(axis=0) - small[i].mean(axis=0)).max()), len(small)
    )


def notebook(data: xr.Dataset, density: float, square: bool = False) -> Sample:
    """Represented features of the notebook's model, or its squared Frobenius norm."""
    _require(data)
    near = np.flatnonzero(np.abs(data.notebook_density.values / density - 1) < 0.02)
    if not near.size:
        raise NotRun(f"this run has no density {density:g}")
    norm = data.notebook_norm.values[:, near[0]]
    return mean_of((norm**2 if square else norm > REPRESENTED).sum(axis=-1))


def tail(data: xr.Dataset) -> Sample:
    """Features of the best optimum known that are there and not represented, at density 0.001."""
    _require(data, 0.001)
    W = data.optimum_W.sel(density=0.001).transpose("hidden", "feature").values
    norm = np.linalg.norm(W, axis=0)
    return exactly(((norm > 0.1) & (norm < REPRESENTED)).sum())


def represented(data: xr.Dataset) -> np.ndarray:
    """Represented features of every trained small ReLU network, ``[seed, density]``."""
    return (np.linalg.norm(data.relu_W.values, axis=2) > REPRESENTED).sum(axis=-1)


def best_weights(data: xr.Dataset, name: str = "relu") -> np.ndarray:
    """Weights of the network with the lowest exact loss at every density."""
    best = np.maximum(data[f"{name}_best"].values, 0)
    return data[f"{name}_W"].values[best, np.arange(best.size)]


def _require(data: xr.Dataset, *densities: float) -> None:
    """Refuse runs of other sizes or densities than the published ones."""
    names = ("hidden", "scaled_feature", "scaled_hidden", "notebook_feature", "notebook_hidden")
    if tuple(data.sizes[name] for name in names) != SIZES:
        raise NotRun("this run has other sizes than the paper")
    if not set(densities) <= set(data.density.values):
        raise NotRun("this run has other densities")
    if not all(data[f"{name}_alive"].all() for name in ("relu", "linear", "scaled", "notebook")):
        raise Absent("a network diverged")


def _grams(W: xr.DataArray) -> np.ndarray:
    """``W^T W`` of each network, ``[..., feature, feature]``."""
    return np.einsum("...ki,...kj->...ij", W.values, W.values)


def small(data: xr.Dataset) -> Figure:
    """W^T W with the bias beside it, and norms coloured by interference; columns are densities."""
    linear, relu = best_weights(data, "linear"), best_weights(data)
    best = np.maximum(data.relu_best.values, 0)
    biases = data.relu_b.values[best, np.arange(best.size)]
    last = len(relu) - 1
    linear_bias = data.linear_b.values[max(int(data.linear_best[last]), 0), last]
    titles = ["linear", *(f"$p$ = {p:g}" for p in data.density.values)]
    rows: list[tuple[str, list[Any], list[Any]]] = [
        ("trained\n$W^\\top W$, b", [linear[last], *relu], [linear_bias, *biases]),
        (
            "lowest exact loss\n$W^\\top W$, b",
            [None, *data.optimum_W.values],
            [None, *data.optimum_b.values],
        ),
    ]
    figure, axes = new_figure(4, len(titles), width=PAGE, height=3.9)
    for row, (label, weights, bias) in enumerate(rows):
        for column, W in enumerate(weights):
            ax, bars = axes[2 * row, column], axes[2 * row + 1, column]
            if W is None:
                ax.set_axis_off()
                bars.set_axis_off()
                continue
            image = _gram(ax, W.T @ W, bias[column])
            colours = _norm_bars(bars, W)
            if row == 0:
                ax.set_title(titles[column], fontsize=7)
        first = 0 if row == 0 else 1
        axes[2 * row, first].set_ylabel(label, fontsize=6.5)
        axes[2 * row + 1, first].set_ylabel("feature", fontsize=6.5)
    axes[3, 1].set_xlabel("norm", fontsize=6.5)
    seeds = data.sizes["seed"]
    n, m = data.sizes["feature"], data.sizes["hidden"]
    figure.suptitle(f"{n} features in {m} dimensions, best of {seeds} seeds", fontsize=8)
    figure.colorbar(image, ax=axes[:2], label="entry", shrink=0.9)
    figure.colorbar(colours, ax=axes[2:], label="interference", shrink=0.9)
    return figure


def scaled(data: xr.Dataset) -> Figure:
    """W^T W of the best network of the larger model, and norms of every seed."""
    grams = data.scaled_gram.values
    figure, axes = new_figure(2, len(grams), width=PAGE, height=2.1)
    for column, gram in enumerate(grams):
        image = axes[0, column].imshow(gram, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)
        axes[0, column].set(xticks=[], yticks=[])
        axes[0, column].set_title(f"$p$ = {data.density.values[column]:g}", fontsize=7)
        ax = axes[1, column]
        ax.plot(
            data.scaled_norm.values[:, column].T,
            color=BLUE,
            linewidth=0.4,
            alpha=0.4,
            rasterized=True,
        )
        ax.set(ylim=(0, 1.3), yticks=[0, 1] if column == 0 else [], xticks=[0, gram.shape[0] - 1])
        ax.tick_params(labelsize=6)
    axes[0, 0].set_ylabel("$W^\\top W$", fontsize=7)
    axes[1, 0].set_ylabel("norm", fontsize=7)
    seeds = data.sizes["seed"]
    figure.suptitle(f"entries of the best of {seeds} seeds; norms of all", fontsize=8)
    figure.supxlabel("feature, most important first", fontsize=7)
    figure.colorbar(image, ax=axes[0], label="entry")
    return figure


def counts(data: xr.Dataset) -> Figure:
    """Represented features over density: every seed, the optimum, and the published counts."""
    figure, axes = new_figure(1, 2, height=2.5)
    left, right = axes[0]
    p = data.density.values
    kept = represented(data)
    mean_curve(left, p, kept.T, BLUE, label=f"mean of {len(kept)} seeds (95 % interval)", each=True)
    optimum = (np.linalg.norm(data.optimum_W.values, axis=1) > REPRESENTED).sum(axis=-1)
    left.plot(
        p, optimum, "s", color=GREEN, markersize=4, fillstyle="none", label="lowest exact loss"
    )
    ratio = data.sizes["scaled_hidden"] / data.sizes["hidden"]
    larger = (data.scaled_norm.values > REPRESENTED).sum(axis=-1) / ratio
    n, m = data.sizes["scaled_feature"], data.sizes["scaled_hidden"]
    mean_curve(left, p, larger.T, ORANGE, label=f"{n} in {m}, divided by {ratio:g}", linestyle="--")
    if data.sizes["feature"] == 20:
        left.plot(
            list(COUNTS), list(COUNTS.values()), "kx", markersize=4, label="published, one seed"
        )
    reference_line(left, y=data.sizes["hidden"], style="dotted")
    left.set_title(f"{data.sizes['feature']} features in {data.sizes['hidden']} dimensions")
    norms = data.notebook_norm.values
    q = data.notebook_density.values
    rows = (norms > REPRESENTED).sum(axis=-1).T
    mean_curve(right, q, rows, BLUE, label=f"mean of {len(norms)} seeds (95 % interval)", each=True)
    squares = (norms**2).sum(axis=-1).T
    mean_curve(right, q, squares, GREY, label=r"squared Frobenius norm", linestyle="--")
    if data.sizes["notebook_feature"] == 100:
        marks = [list(NOTEBOOK_COUNTS), list(NOTEBOOK_COUNTS.values())]
        right.plot(*marks, "kx", markersize=4, label="published, two runs")
    reference_line(right, y=data.sizes["notebook_hidden"], style="dotted")
    sizes = (data.sizes["notebook_feature"], data.sizes["notebook_hidden"])
    right.set_title("{} features in {} dimensions".format(*sizes))
    for ax in axes[0]:
        ax.set(xscale="log", xlabel="density $p = 1 - S$", ylabel="features with norm above 0.5")
        ax.invert_xaxis()
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend(loc="upper left", fontsize=6)
    left.set_xticks(p, [f"{value:g}" for value in p])
    right.set_xticks(q, [f"{value:.2g}" for value in q])
    for ax in axes[0]:
        ax.minorticks_off()
    letter_panels(axes[0])
    return figure


def _gram(ax: Axes, gram: np.ndarray, bias: np.ndarray) -> AxesImage:
    """W^T W with the bias as one more column, after a gap."""
    n = len(gram)
    picture = np.full((n, n + 3), np.nan)
    picture[:, :n], picture[:, n + 1 :] = gram, bias[:, None]
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax.imshow(picture, cmap=DIVERGING, vmin=-1, vmax=1, rasterized=True)


def _norm_bars(ax: Axes, W: np.ndarray) -> ScalarMappable:
    """Norms as horizontal bars, coloured by the squared interference of the paper's text."""
    norm = np.linalg.norm(W, axis=0)
    overlap = ((W / np.maximum(norm, 1e-6)).T @ W) ** 2
    interference = overlap.sum(axis=1) - np.diag(overlap)
    colours = ScalarMappable(Normalize(0, 1), SEQUENTIAL)
    ax.barh(np.arange(len(norm)), norm, color=colours.to_rgba(interference), height=0.9)
    ax.set(xlim=(0, 1.3), ylim=(len(norm) - 0.5, -0.5), xticks=[0, 1], yticks=[])
    ax.tick_params(labelsize=6)
    reference_line(ax, x=1, colour=BLACK)
    return colours
