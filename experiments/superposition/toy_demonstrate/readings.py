"""Linear and ReLU models over sparsity: what is read from the record, and its figures."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from circuitax.figures.marks import reference_line
from circuitax.figures.palette import BLACK, DIVERGING, SEQUENTIAL
from circuitax.figures.style import new_figure
from circuitax.records.sample import Absent, NotRun, Sample, mean_of, resampled, share_of
from circuitax.records.worlds import shuffle
from circuitax.superposition.polytopes import Phase, phases, polytopes
from experiments.superposition.shared.cell_readings import of_best, place_of
from experiments.superposition.shared.random_weights import normal_weights

# A feature is represented when its norm is above this.
REPRESENTED = 0.5
# A bias is negative, and interference positive, when it is this far from 0.
LEAST = 0.01
SIZES = (5, 80, 20, 100, 20)


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
    norm = data.notebook_norm.values[:, place_of(density, data.notebook_density, within=0.02)]
    return mean_of((norm**2 if square else norm > REPRESENTED).sum(axis=-1))


def represented(data: xr.Dataset) -> np.ndarray:
    """Represented features of every trained small ReLU network, ``[seed, density]``."""
    return (np.linalg.norm(data.relu_W.values, axis=2) > REPRESENTED).sum(axis=-1)


def best_networks(data: xr.Dataset, name: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of the network with the lowest exact loss at every density."""
    W, b = (of_best(data[f"{name}_{part}"], data[f"{name}_best"]) for part in ("W", "b"))
    return list(zip(W, b, strict=True))


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
    networks = [best_networks(data, "linear")[-1], *best_networks(data, "relu")]
    titles = ["linear", *(f"$p$ = {p:g}" for p in data.density.values)]
    figure, axes = new_figure(2, len(titles), height=2.4)
    for (picture, bars), (W, b), title in zip(axes.T, networks, titles, strict=True):
        image, colours = _gram(picture, W, b), _norm_bars(bars, W)
        picture.set_title(title, fontsize=7)
    axes[0, 0].set_ylabel("$W^\\top W$, b", fontsize=6.5)
    axes[1, 0].set_ylabel("feature", fontsize=6.5)
    axes[1, 0].set_xlabel("norm", fontsize=6.5)
    n, m, seeds = (data.sizes[name] for name in ("feature", "hidden", "seed"))
    figure.suptitle(f"{n} features in {m} dimensions, best of {seeds} seeds", fontsize=8)
    figure.colorbar(image, ax=axes[0], label="entry", shrink=0.9)
    figure.colorbar(colours, ax=axes[1], label="interference", shrink=0.9)
    return figure


def _gram(ax: Axes, W: np.ndarray, bias: np.ndarray) -> AxesImage:
    """W^T W with the bias as one more column, after a gap."""
    n = len(bias)
    picture = np.full((n, n + 3), np.nan)
    picture[:, :n], picture[:, n + 1 :] = W.T @ W, bias[:, None]
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
