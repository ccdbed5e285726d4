"""Small training sets become polygons of samples, large ones a pentagon of features."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.marks import mean_curve, reference_line
from circuitax.figures.palette import BLACK, BLUE, GREEN, GREY
from circuitax.figures.style import letter_panels, new_figure, sample_note
from circuitax.records.sample import (
    Absent,
    NotRun,
    Sample,
    crossfit_best,
    mean_of,
    resampled,
    share_of,
)
from circuitax.superposition.polytopes import gaps
from experiments.superposition.shared.figure_polytopes import arrows, dimensions_over_points
from experiments.superposition.shared.random_weights import dimensionalities

FEW = (5, 8)
MANY = 150  # first T at which a set has a pentagon: from there on features are in order
TOLERANCE = 0.25
CORNERS = 5
GAIN = 0.25  # share of the final gain on 1 from which on a model generalises
INNER = {"points": slice(1, -1)}  # a curve that only falls or only rises has no peak there
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
    """Share of the largest training sets that made exactly five features a regular pentagon."""
    found = [W[:, kept] for W, kept in zip(*_represented(data), strict=True)]
    return share_of([W.shape[1] == CORNERS and regular(W) for W in found])


def feature_dimension(data: xr.Dataset) -> Sample:
    """Mean dimension of the five features of the sets that represent five."""
    W, kept = _represented(data)
    has_five = kept.sum(axis=-1) == CORNERS
    if has_five.sum() < 2:
        raise Absent("fewer than two sets represent five features")
    of_five = dimensionalities(W)[has_five][kept[has_five]]
    return mean_of(of_five.reshape(-1, CORNERS).mean(axis=1))


def at_most(data: xr.Dataset) -> dict[str, Sample]:
    """Norm of W and test loss at the largest T."""
    _require(data)
    last = data.isel(decay=0, points=-1)
    return {
        "memorization-norm-plateau": mean_of(last.W_norm),
        "memorization-generalises": mean_of(last.test_loss),
    }


def bump(data: xr.Dataset) -> dict[str, Sample]:
    """Peaks of test loss and norms, at a T chosen on other sets, over those of both regimes."""
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
        "memorization-bump-height": mean_of(
            crossfit_best(first.test_loss[INNER], "points", "dataset")
        ),
        "memorization-norm-peak": mean_of(xr.concat(rises, "norm").min("norm")),
    }


def removed(data: xr.Dataset) -> Sample:
    """Share of the bump that the last decay removes, both means of the same sets."""
    _require(data, decays=2)
    top = crossfit_best(data.test_loss.isel(decay=0)[INNER], "points", "dataset").values
    strong = data.test_loss.isel(decay=-1).transpose("dataset", "points").values

    def share(sets: np.ndarray) -> float:
        height = top[sets].mean()
        return float((strong[sets].mean(axis=0).max() - height) / (height - 1))

    return resampled(share, data.sizes["dataset"])


def onset_density(data: xr.Dataset) -> Sample:
    """T p from which on the mean test loss keeps a quarter of its final gain."""
    _require(data)
    p, curves = data.attrs["density"], data[["test_loss"]]
    return resampled(lambda i: p * onset(curves.isel(dataset=i)), data.sizes["dataset"])


def onset_of_decays(data: xr.Dataset) -> Sample:
    """The onset with the last decay over that with the first."""
    _require(data, decays=2)
    if onset(data) > data.points[-1]:
        raise Absent("models do not generalise at the largest T")
    last, first = (data[["test_loss"]].isel(decay=[i]) for i in (-1, 0))
    return resampled(
        lambda i: onset(last.isel(dataset=i)) / onset(first.isel(dataset=i)), data.sizes["dataset"]
    )


def regular(vectors: np.ndarray) -> bool:
    """Whether vectors ``[2, n]`` have equal gaps and equal lengths, within a quarter."""
    both = np.stack([gaps(vectors), np.linalg.norm(vectors, axis=0)])
    mean = both.mean(axis=1, keepdims=True)
    return bool((np.abs(both - mean) <= TOLERANCE * mean).all())


def onset(data: xr.Dataset) -> float:
    """The T from which on the mean test loss keeps `GAIN` of its final gain on 1.

    Straight over log T between two sizes; twice the last T where it ends at 1 or more.
    """
    mean = data.test_loss.isel(decay=0).mean("dataset").values
    points, kept = data.points.values, 1 - GAIN * (1 - mean[-1])
    above = np.flatnonzero(mean >= kept)
    if not above.size:
        return float(points[0])
    last = int(above[-1])
    if last + 1 == mean.size:
        return 2.0 * float(points[-1])
    share = (mean[last] - kept) / (mean[last] - mean[last + 1])
    return float(points[last] * (points[last + 1] / points[last]) ** share)


def _regimes(data: xr.Dataset) -> np.ndarray:
    """The T at which few samples are stored as samples, or many as features; both ends are."""
    points = data.points.values
    return points[(points <= FEW[-1]) | (points >= min(MANY, points[-1]))]


def _few_vectors(data: xr.Dataset, size: int) -> np.ndarray:
    """Hidden vectors ``[set, 2, T]`` of the T points of each set."""
    _require(data)
    return np.asarray(data.hidden_vectors.sel(points=size).values[..., :size])


def _represented(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``[set, 2, n]`` at the largest T, and features of at least half the largest norm."""
    _require(data)
    W = data.W.isel(points=-1).transpose("dataset", "hidden", "feature").values
    norm = np.linalg.norm(W, axis=-2)
    return W, norm > norm.max(axis=-1, keepdims=True) / 2


def _require(data: xr.Dataset, decays: int = 1) -> None:
    """Refuse runs without few and many points, several sets or decays."""
    sizes = set(data.points.values.tolist())
    enough = set(FEW) <= sizes and len(sizes) > 5 and _regimes(data).size < len(sizes)
    if not enough or data.sizes["dataset"] < 2 or data.sizes["decay"] < decays:
        raise NotRun("this run has other numbers of points, one set or one decay")
    if not np.isfinite(data.test_loss).all():
        raise Absent("a network diverged")


def descent(data: xr.Dataset) -> Figure:
    """Losses over the number of training points, and dimensions of features and of samples."""
    figure, axes = new_figure(2, 1, height=4.0, sharex=True, height_ratios=(1.2, 1))
    (losses,), (shares,) = axes
    x, decays = data.points.values, data.decay.values
    for i, (decay, colour) in enumerate(zip(decays, (BLACK, GREY), strict=False)):
        rows = data.test_loss.isel(decay=i).transpose("points", "dataset").values
        how: dict[str, Any] = {"label": f"test loss, weight decay {decay:g}", "marker": "."}
        mean_curve(losses, x, rows, colour, each=not i, least=LEAST, **how)
    train = data.train_loss.isel(decay=0).min("restart").transpose("points", "dataset").values
    how = {"label": f"training loss, weight decay {decays[0]:g}", "linestyle": "--"}
    mean_curve(losses, x, train, BLACK, least=LEAST, **how)
    reference_line(losses, y=1)
    losses.set(yscale="log", ylim=(LEAST, None), ylabel="loss")
    losses.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    losses.legend(loc="upper left")
    dimensions_over_points(shares, x, data.isel(dataset=0))
    shares.set(xscale="log", xlabel="training points $T$", ylabel="dimensionality", ylim=(0, 1.02))
    shares.set_xticks(x, [str(size) for size in x], rotation=90, fontsize=6)
    shares.minorticks_off()
    shares.legend(loc="upper right", ncols=2)
    letter_panels([losses, shares])
    sample_note(figure, f"a: mean and 95 % interval of {data.sizes['dataset']} sets; b: the first")
    return figure


def rays(data: xr.Dataset) -> Figure:
    """Features (above) and hidden vectors of samples (below) of the first training set."""
    sizes, kept = data.points.values, data.sizes["sample"]
    shown = [*sizes[sizes <= kept][2::2], *sizes[sizes > kept][-3:]]
    figure, axes = new_figure(2, len(shown), height=2.6)
    for panels, size in zip(axes.T, shown, strict=True):
        one = data.isel(dataset=0).sel(points=size)
        reach = 1.05 * max(float(abs(one[name]).max()) for name in ("W", "hidden_vectors"))
        both = one.W.values, one.hidden_vectors.values[:, :size]
        for ax, vectors, colour in zip(panels, both, (BLUE, GREEN), strict=True):
            arrows(ax, vectors, [colour] * vectors.shape[1], linewidth=0.6, marker="")
            ax.set(xlim=(-reach, reach), ylim=(-reach, reach))
        panels[0].set_title(f"$T$ = {size}", fontsize=7)
        panels[1].set_visible(size <= kept)
    axes[0, 0].set_ylabel("features")
    axes[1, 0].set_ylabel("samples")
    return figure
