"""Small training sets become polygons of samples, large ones a pentagon of features."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import PAGE, letter_panels, new_figure
from circuitax.records.crossfit import crossfit_best
from circuitax.records.sample import Absent, NotRun, Sample, exactly, mean_of, resampled, share_of
from circuitax.superposition.polytopes import gaps
from experiments.superposition.shared.random_weights import dimensionalities

FEW = (5, 8)
MANY = 150  # first T at which a set has a pentagon: from there on features are in order
TOLERANCE = 0.25
CORNERS = 5
GAIN = 0.25  # share of the final gain on 1 from which on a model generalises
MOST_SHOWN = 6
LEAST = 0.1  # of the losses shown: fewer points are memorised to much less


def polygons(data: xr.Dataset, size: int) -> Sample:
    """Share of sets of few points whose hidden vectors are a regular polygon."""
    return share_of([regular(vectors) for vectors in _few_vectors(data, size)])


def sample_dimension(data: xr.Dataset) -> Sample:
    """By what share the dimensions of few samples miss an even part of two."""
    few = [_few_vectors(data, size) for size in FEW]
    misses = [np.abs(dimensionalities(one) * one.shape[-1] / 2 - 1).mean(axis=-1) for one in few]
    return mean_of(np.mean(misses, axis=0))


def pentagon(data: xr.Dataset) -> Sample:
    """Share of the largest training sets that made five features a regular pentagon."""
    _require(data)
    return share_of(pentagons(data))


def feature_dimension(data: xr.Dataset) -> Sample:
    """Mean dimension of the five features of the sets that represent five."""
    _require(data)
    W = _last_weights(data)
    kept = is_represented(W)
    has_five = kept.sum(axis=-1) == CORNERS
    if has_five.sum() < 2:
        raise Absent("fewer than two sets represent five features")
    of_five = dimensionalities(W)[has_five][kept[has_five]]
    return mean_of(of_five.reshape(-1, CORNERS).mean(axis=1))


def norm_plateau(data: xr.Dataset) -> Sample:
    """Norm of W at the largest T."""
    _require(data)
    return mean_of(data.W_norm.isel(decay=0, points=-1))


def bump(data: xr.Dataset) -> dict[str, Sample]:
    """Peaks of test loss and of norms between few and many points, over those of both regimes.

    The place of a peak is chosen on other sets than those it is read from, so that no peak of noise
    is taken for one.
    """
    _require(data)
    first, sides = data.isel(decay=0), _regimes(data)
    between, outside = first.drop_sel(points=sides), first.sel(points=sides)
    top = crossfit_best(between.test_loss, "points", "dataset")
    rises = [
        crossfit_best(between[norm], "points", "dataset") / outside[norm].max("points")
        for norm in ("W_norm", "b_norm")
    ]
    return {
        "memorization-bump": mean_of(top - outside.test_loss.max("points")),
        "memorization-bump-height": mean_of(at_peak(first.test_loss)),
        "memorization-norm-peak": mean_of(xr.concat(rises, "norm").min("norm")),
    }


def removed(data: xr.Dataset) -> Sample:
    """Share of the bump that the last decay removes, both means of the same sets."""
    _require(data, decays=2)
    top = at_peak(data.test_loss.isel(decay=0)).values
    strong = data.test_loss.isel(decay=-1).transpose("dataset", "points").values

    def share(sets: np.ndarray) -> float:
        height = top[sets].mean()
        return float((strong[sets].mean(axis=0).max() - height) / (height - 1))

    return resampled(share, data.sizes["dataset"])


def generalises(data: xr.Dataset) -> Sample:
    """Test loss at the largest T."""
    _require(data)
    return mean_of(data.test_loss.isel(decay=0, points=-1))


def onset_density(data: xr.Dataset) -> Sample:
    """T p from which on the mean test loss keeps a quarter of its final gain."""
    _require(data)
    p, curves = data.attrs["density"], data[["test_loss"]]
    return resampled(lambda i: p * _onset_or_later(curves.isel(dataset=i)), data.sizes["dataset"])


def onset_of_decays(data: xr.Dataset) -> Sample:
    """The onset with the last decay over that with the first."""
    _require(data, decays=2)
    if not np.isfinite(onset(data)):
        raise Absent("models do not generalise at the largest T")
    curves = data[["test_loss"]]

    def ratio(sets: np.ndarray) -> float:
        drawn = curves.isel(dataset=sets)
        return _onset_or_later(drawn, -1) / _onset_or_later(drawn)

    return resampled(ratio, data.sizes["dataset"])


def theory(data: xr.Dataset) -> dict[str, Sample]:
    """Losses of T-gons of the exact norm, and of 0.99 of it, on disjoint samples."""
    return {
        "memorization-exact": exactly(data.theory_loss.sel(scale=1.0).max()),
        "memorization-least": exactly(data.theory_loss.sel(scale=0.99).min()),
    }


def regular(vectors: np.ndarray) -> bool:
    """Whether vectors ``[2, n]`` have equal gaps and equal lengths, within a quarter."""
    both = np.stack([gaps(vectors), np.linalg.norm(vectors, axis=0)])
    mean = both.mean(axis=1, keepdims=True)
    return bool((np.abs(both - mean) <= TOLERANCE * mean).all())


def is_represented(W: np.ndarray) -> np.ndarray:
    """Mask of the features of models ``[..., 2, n]`` with a norm above half of the largest."""
    norm = np.linalg.norm(W, axis=-2)
    return np.asarray(norm > norm.max(axis=-1, keepdims=True) / 2)


def pentagons(data: xr.Dataset) -> list[bool]:
    """Whether each of the largest training sets made exactly five features a regular pentagon."""
    kept = [W[:, is_represented(W)] for W in _last_weights(data)]
    return [W.shape[1] == CORNERS and regular(W) for W in kept]


def peak(data: xr.Dataset) -> int:
    """The number of points at which the mean test loss of the first decay is highest."""
    mean = data.test_loss.isel(decay=0).mean("dataset")
    return int(data.points[int(mean.argmax("points"))])


def at_peak(values: xr.DataArray) -> xr.DataArray:
    """Value of each set at the inner T at which the mean of the other half of the sets is highest.

    A curve that only falls or only rises has none above both of its ends.
    """
    return crossfit_best(values.isel(points=slice(1, -1)), "points", "dataset")


def onset(data: xr.Dataset, decay: int = 0) -> float:
    """The T from which on the mean test loss keeps `GAIN` of its final gain on 1.

    Between two sizes the loss is a straight line over log T; NaN where it ends at 1 or more.
    """
    mean = data.test_loss.isel(decay=decay).mean("dataset").values
    points, kept = data.points.values, 1 - GAIN * (1 - mean[-1])
    above = np.flatnonzero(mean >= kept)
    if not above.size:
        return float(points[0])
    last = int(above[-1])
    if last + 1 == mean.size:
        return float("nan")
    share = (mean[last] - kept) / (mean[last] - mean[last + 1])
    return float(points[last] * (points[last + 1] / points[last]) ** share)


def _onset_or_later(data: xr.Dataset, decay: int = 0) -> float:
    """The onset, or a number far beyond all points where there is none."""
    at = onset(data, decay)
    return at if np.isfinite(at) else 2.0 * float(data.points[-1])


def _regimes(data: xr.Dataset) -> np.ndarray:
    """The T at which few samples are stored as samples, or many as features; both ends are."""
    points = data.points.values
    return points[(points <= FEW[-1]) | (points >= min(MANY, points[-1]))]


def _few_vectors(data: xr.Dataset, size: int) -> np.ndarray:
    """Hidden vectors ``[set, 2, T]`` of the T points of each set."""
    _require(data)
    few = data.hidden_vectors.sel(points=size)
    return np.asarray(few.transpose("dataset", "hidden", "sample").values[..., :size])


def _last_weights(data: xr.Dataset) -> np.ndarray:
    """Weights ``[set, 2, n]`` at the largest T."""
    most = data.W.sel(points=data.points.values[-1])
    return np.asarray(most.transpose("dataset", "hidden", "feature").values)


def _require(data: xr.Dataset, decays: int = 1) -> None:
    """Refuse runs without few and many points, several sets or decays."""
    sizes = set(data.points.values.tolist())
    enough = set(FEW) <= sizes and len(sizes) > 5 and _regimes(data).size < len(sizes)
    if not enough or data.sizes["dataset"] < 2 or data.sizes["decay"] < decays:
        raise NotRun("this run has other numbers of points, one set or one decay")
    if not np.isfinite(data.test_loss).all():
        raise Absent("a network diverged")


def descent(data: xr.Dataset) -> Figure:
    """Test loss at every decay; norms of W; dimensions of samples and features."""
    figure, axes = new_figure(1, 3, width=PAGE, height=2.7)
    x, sets = data.points.values, data.sizes["dataset"]
    loss, norm, dimension = axes[0]
    for i, decay in enumerate(data.decay.values):
        one, colour = data.isel(decay=i), (BLUE, ORANGE)[i % 2]
        label = f"weight decay {decay:g}"
        for ax, values in ((loss, one.test_loss), (norm, one.W_norm)):
            rows = values.transpose("points", "dataset").values
            mean_curve(
                ax,
                x,
                rows,
                colour,
                label=label,
                each=True,
                least=LEAST,
                marker="o",
                markersize=2.5,
            )
    first = data.isel(decay=0)
    train = first.train_loss.min("restart").transpose("points", "dataset").values
    label = f"training loss, decay {data.decay.values[0]:g}"
    mean_curve(loss, x, train, GREY, label=label, linestyle="--", least=LEAST)
    reference_line(loss, y=1)
    loss.set(ylabel="loss (sum over features)", yscale="log", ylim=(LEAST, None))
    norm.plot(x, np.sqrt(x) * data.least_norm.values, "--", color=GREY, label="exact least, T-gon")
    reference_line(norm, y=5**0.5, label=r"$\sqrt{5}$")
    norm.set(ylabel=r"$|W|_F$", ylim=(0, 1.8 * float(data.W_norm.max())))
    ordered = np.sort(first.feature_dimension.transpose("points", "dataset", "feature").values)
    samples = first.sample_dimension.transpose("points", "dataset").values
    label = r"samples, mean $D_X$"
    mean_curve(dimension, x, samples, GREEN, label=label, marker="o", markersize=2.5)
    features = ordered[..., -CORNERS:].mean(axis=-1)
    label = r"five largest $D_f$, mean"
    mean_curve(dimension, x, features, ORANGE, label=label, marker="o", markersize=2.5)
    dimension.plot(x, 2 / x, ":", color=GREY, label="$m/T$")
    reference_line(dimension, y=2 / 5)
    dimension.set(ylabel="dimensionality", ylim=(0, 0.75))
    for ax in axes[0]:
        ax.set(xscale="log", xlabel="training points $T$")
        ax.legend(fontsize=6, loc="upper right", frameon=True, framealpha=1, edgecolor="none")
    loss.set_ylim(top=60 * float(data.test_loss.max()))  # room for the legend
    dimension.set_title(f"means of {sets} sets, t 95 %", fontsize=7)
    letter_panels(axes[0])
    return figure


def rays(data: xr.Dataset) -> Figure:
    """Features (above) and hidden vectors of samples (below) of the first training set."""
    at = _shown(data)
    figure, axes = new_figure(2, len(at), width=PAGE, height=2.6)
    for column, size in enumerate(at):
        W = data.W.sel(points=size).isel(dataset=0).values
        vectors = data.shown_vectors.sel(points=size).values[:, :size]
        _rays(axes[0, column], W, BLUE)
        _rays(axes[1, column], vectors, GREEN)
        axes[0, column].set_title(f"$T$ = {size}", fontsize=7)
    axes[0, 0].set_ylabel("features")
    axes[1, 0].set_ylabel("samples")
    return figure


def _shown(data: xr.Dataset) -> list[int]:
    """Evenly chosen numbers of points: the first, the last, and that of the bump among them."""
    sizes = data.points.values
    chosen = set(np.linspace(0, sizes.size - 1, min(MOST_SHOWN, sizes.size)).round().astype(int))
    return sorted({int(sizes[i]) for i in chosen} | {peak(data)})


def _rays(ax: Axes, vectors: np.ndarray, colour: str) -> None:
    """Vectors from the origin, each picture at its own scale."""
    limit = 1.1 * float(np.abs(vectors).max())
    zeros = np.zeros(vectors.shape[1])
    ax.plot(*np.stack([[zeros, vectors[0]], [zeros, vectors[1]]]), color=colour, linewidth=0.4)
    ax.plot(*vectors, ".", color=colour, markersize=2.5, rasterized=True)
    ax.set(aspect="equal", xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
