"""Measured values of the claims on memorisation, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.elsewhere import best_elsewhere
from circuitax.records.estimate import Estimate, exact, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import beside, shuffled
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from circuitax.superposition.polytopes import gaps
from experiments.superposition.shared.random_weights import (
    dimensionalities,
    normal_weights,
    same_norms,
)
from experiments.superposition.toy_memorization import nulls as altered
from experiments.superposition.toy_memorization.claims import CLAIMS

FEW = (5, 8)
MANY = 150  # first T at which a set has a pentagon: from there on features are in order
TOLERANCE = 0.25
CORNERS = 5
LARGEST = 10  # others that are set to 0: what is left of the sharing is that of many
# Of polygons that are no pentagon, and of those whose features share two dimensions alone.
MORE_CORNERS, SOME_CORNERS = (6, 7, 8), (3, 4, 5, 6, 7, 8)
GAIN = 0.25  # share of the final gain on 1 from which on a model generalises
N_DRAWS = 40


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    loss = data.theory_loss
    found: dict[str, Estimate] = {
        "memorization-exact": exact(loss.sel(scale=1.0).max()),
        "memorization-least": exact(loss.sel(scale=0.99).min()),
    }
    if _wanted(data):
        found |= _samples(data) | _features(data) | _descent(data, record.notes["density"])
    reason = "this run has other numbers of points, one set or decay, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: starts, random directions and onsets, decays exchanged, false worlds."""
    data, density = record.data, record.notes["density"]
    if not _wanted(data):
        return {}
    rngs, others, more = (_generators(i * N_DRAWS) for i in range(3))
    sizes = [shuffled(data, ["feature_dimension"], "points", rng, ["dataset"]) for rng in rngs]
    many, few = data.points.values[-1], FEW[-1]
    polygons = [
        *(altered.polygons(data, n, many, CORNERS, alone=False) for n in MORE_CORNERS),
        *(altered.polygons(data, n, few, CORNERS, alone=True) for n in SOME_CORNERS),
    ]
    no_change = [*sizes, *(altered.turned(data, [few, many], rng) for rng in others)]
    removed: dict[str, Draws] = {}
    if data.sizes["decay"] > 1:
        decays = [shuffled(data, ["test_loss"], "decay", rng, ["dataset"]) for rng in rngs]
        worlds = [*decays, *altered.tenths(data, rngs)]
        removed["memorization-decay"] = [_removed(one) for one in worlds]
    no_peak = [
        *(_bump(altered.monotone(data, falls)) for falls in (True, False)),
        *(_bump(altered.rolled(data, T)) for T in _regimes(data)[1:-1]),
    ]
    strong = _bump(data.isel(decay=slice(-1, None)))
    W = _last_weights(data)
    kept = is_represented(W)
    shared_with_few = W * (kept | _largest_others(W, kept))[:, None]
    return {
        "mismatched": {
            "memorization-generalises": [
                _most(data.sel(points=[size])) for size in data.points.values if size <= FEW[-1]
            ],
        },
        "false world": {
            **removed,
            "memorization-no-features": beside(
                *(
                    (mean_estimate(_set_apart(one)) for one in each)
                    for each in (no_change, polygons)
                )
            ),
            "memorization-feature-dimension": [_of_five(shared_with_few)],
            "memorization-bump": [one["memorization-bump"] for one in (*no_peak, strong)],
            "memorization-norm-peak": [one["memorization-norm-peak"] for one in no_peak],
        },
        "untrained": _untrained(W, record.notes["init_std"], rngs, more),
        "random": _random(data, density, rngs, more),
    }


def _generators(first: int) -> list[np.random.Generator]:
    return [np.random.default_rng(first + i) for i in range(N_DRAWS)]


def regular(vectors: np.ndarray) -> bool:
    """Whether vectors ``[2, n]`` have equal gaps and equal lengths, within a quarter."""
    both = np.stack([gaps(vectors), np.linalg.norm(vectors, axis=0)])
    mean = both.mean(axis=1, keepdims=True)
    return bool((np.abs(both - mean) <= TOLERANCE * mean).all())


def represented(W: np.ndarray) -> np.ndarray:
    """The features of a model ``[2, n]`` whose norm is above half of the largest."""
    return W[:, is_represented(W)]


def is_represented(W: np.ndarray) -> np.ndarray:
    """Mask of the features of models ``[..., 2, n]`` with a norm above half of the largest."""
    norm = np.linalg.norm(W, axis=-2)
    return np.asarray(norm > norm.max(axis=-1, keepdims=True) / 2)


def bump(data: xr.Dataset) -> int:
    """The number of points at which the mean test loss of the first decay is highest."""
    mean = data.test_loss.isel(decay=0).mean("dataset")
    return int(data.points[int(mean.argmax("points"))])


def at_peak(values: xr.DataArray) -> xr.DataArray:
    """Value of each set at the inner T at which the mean of the other half of the sets is highest.

    The place is chosen on other sets than those it is read from, so that no peak of noise is taken
    for one, and a curve that only falls or only rises has none above both of its ends.

    Args:
        values: ``[dataset, points]`` in any order, of two sets and three sizes or more.
    """
    return best_elsewhere(values.isel(points=slice(1, -1)), "points", "dataset")


def onset(data: xr.Dataset, decay: int = 0) -> float:
    """The T from which on the mean test loss keeps `GAIN` of its final gain on 1.

    Between two sizes the loss is a straight line over log T.

    Args:
        data: ``test_loss [decay, dataset, points]``, sizes in order.
        decay: Its index.

    Returns:
        The number of points; NaN where the loss at the largest T is 1 or more.
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


def _wanted(data: xr.Dataset) -> bool:
    """Whether a run has what the claims are about: few and many points, sets, finite losses."""
    sizes = set(data.points.values.tolist())
    enough = set(FEW) <= sizes and len(sizes) > 5 and data.sizes["dataset"] > 1
    enough = enough and _regimes(data).size < len(sizes)
    return enough and bool(np.isfinite(data.test_loss).all())


@measures("memorization-tgon-*", "memorization-least-norm")
def _samples(data: xr.Dataset) -> dict[str, Estimate]:
    """Polygons of hidden vectors."""
    few = [_few_vectors(data, size) for size in FEW]
    found = {
        f"memorization-tgon-{size}": share_estimate([*map(regular, vectors)])
        for size, vectors in zip(FEW, few, strict=True)
    }
    found["memorization-sample-dimension"] = _uneven(few)
    norm = np.linalg.norm(few[-1], axis=1).mean(axis=1)
    least = float(data.least_norm.sel(points=FEW[-1]))
    found["memorization-least-norm"] = mean_estimate(norm / least)
    return found


def _few_vectors(data: xr.Dataset, size: int) -> np.ndarray:
    """Hidden vectors ``[set, 2, T]`` of the T points of each set."""
    few = data.hidden_vectors.sel(points=size)
    return np.asarray(few.transpose("dataset", "hidden", "sample").values[..., :size])


@measures("memorization-sample-dimension")
def _uneven(few: list[np.ndarray]) -> Estimate:
    """By what share dimensions of samples miss an even part of two, of ``[set, 2, T]`` each."""
    misses = [np.abs(dimensionalities(one) * one.shape[-1] / 2 - 1).mean(axis=-1) for one in few]
    return mean_estimate(np.mean(misses, axis=0))


@measures(
    "memorization-feature-dimension",
    "memorization-no-features",
    "memorization-norm-plateau",
    "memorization-pentagon",
    "memorization-sample-share",
)
def _features(data: xr.Dataset) -> dict[str, Estimate]:
    """Dimensions of features, and the pentagon."""
    first, most = data.isel(decay=0), data.points.values[-1]
    found = {
        "memorization-no-features": mean_estimate(_set_apart(data)),
        "memorization-pentagon": share_estimate(pentagons(data)),
        "memorization-sample-share": mean_estimate(first.sample_dimension.sel(points=most)),
        "memorization-norm-plateau": mean_estimate(first.W_norm.sel(points=most)),
    }
    if five := _of_five(_last_weights(data)):
        found["memorization-feature-dimension"] = five
    return found


def _of_five(W: np.ndarray) -> Estimate | None:
    """Mean dimension of the five features of the sets that represent five, of ``[set, 2, n]``.

    The ten largest others of each set are 0. None where there are no two such sets.
    """
    kept = is_represented(W)
    dimensions = dimensionalities(W * ~_largest_others(W, kept)[:, None])
    has_five = kept.sum(axis=-1) == CORNERS
    if has_five.sum() < 2:
        return None
    return mean_estimate(dimensions[has_five][kept[has_five]].reshape(-1, CORNERS).mean(axis=1))


def _largest_others(W: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Mask ``[set, n]`` of the ten features with the largest norms that are not represented."""
    norm = np.where(kept, 0, np.linalg.norm(W, axis=1))
    ranks = (-norm).argsort(axis=-1).argsort(axis=-1)
    return np.asarray((ranks < LARGEST) & ~kept)


def _last_weights(data: xr.Dataset) -> np.ndarray:
    """Weights ``[set, 2, n]`` at the largest T."""
    most = data.W.sel(points=data.points.values[-1])
    return np.asarray(most.transpose("dataset", "hidden", "feature").values)


def _set_apart(data: xr.Dataset) -> np.ndarray:
    """The least rise of three numbers from the larger of the few T to the largest, ``[dataset]``.

    By how much the fifth largest D_f is above the sixth, which are alike in a polygon of more than
    five; ``sum D_f^2 / sum D_f``, which is 2/k for k features that are a polygon; and a quarter of
    the five-fold order ``|sum n_f^2 exp(5 i angle_f)| / sum n_f^2``, 1 for a pentagon.
    """
    at = data.sel(points=[FEW[-1], data.points.values[-1]])
    D = np.sort(at.isel(decay=0).feature_dimension.transpose("points", "dataset", "feature").values)
    gap = D[..., -CORNERS] - D[..., -CORNERS - 1]
    size = (D**2).sum(axis=-1) / np.maximum(D.sum(axis=-1), np.finfo(float).tiny)
    x, y = at.W.transpose("hidden", "points", "dataset", "feature").values.astype(float)
    squares = x**2 + y**2
    turns = squares * np.exp(1j * CORNERS * np.arctan2(y, x))
    order = np.abs(turns.sum(axis=-1)) / np.maximum(squares.sum(axis=-1), np.finfo(float).tiny)
    return np.min([gap[1] - gap[0], size[1] - size[0], (order[1] - order[0]) / 4], axis=0)


def is_pentagon(W: np.ndarray) -> bool:
    """Whether exactly five features ``[2, n]`` are represented, as a regular pentagon."""
    kept = represented(W)
    return kept.shape[1] == CORNERS and regular(kept)


def pentagons(data: xr.Dataset) -> list[bool]:
    """Whether each of the largest training sets made five features a regular pentagon."""
    return [is_pentagon(W) for W in _last_weights(data)]


@measures("memorization-onset", "memorization-onset-decay")
def _descent(data: xr.Dataset, density: float) -> dict[str, Estimate]:
    """Test loss and norms over the number of points."""
    curves = data[["test_loss"]]
    found = _bump(data) | {
        "memorization-generalises": _most(data),
        "memorization-onset": resampled_estimate(
            lambda sets: density * _onset_or_later(curves.isel(dataset=sets)), data.sizes["dataset"]
        ),
    }
    if data.sizes["decay"] > 1:
        found["memorization-decay"] = _removed(data)
    if data.sizes["decay"] > 1 and np.isfinite(onset(data)):
        found["memorization-onset-decay"] = resampled_estimate(
            lambda sets: _onset_of_decays(curves.isel(dataset=sets)), data.sizes["dataset"]
        )
    return found


@measures("memorization-bump", "memorization-bump-height", "memorization-norm-peak")
def _bump(data: xr.Dataset) -> dict[str, Estimate]:
    """The peaks of test loss and of norms between few and many points."""
    first, sides = data.isel(decay=0), _regimes(data)
    # The place is between the regimes: where a peak is in one, its loss less itself would be 0.
    between, outside = first.drop_sel(points=sides), first.sel(points=sides)
    top = best_elsewhere(between.test_loss, "points", "dataset")
    rises = [
        best_elsewhere(between[norm], "points", "dataset") / outside[norm].max("points")
        for norm in ("W_norm", "b_norm")
    ]
    return {
        "memorization-bump": mean_estimate(top - outside.test_loss.max("points")),
        "memorization-bump-height": mean_estimate(at_peak(first.test_loss)),
        "memorization-norm-peak": mean_estimate(xr.concat(rises, "norm").min("norm")),
    }


def _regimes(data: xr.Dataset) -> np.ndarray:
    """The T at which few samples are stored as samples, or many as features; both ends are."""
    points = data.points.values
    return points[(points <= FEW[-1]) | (points >= min(MANY, points[-1]))]


@measures("memorization-generalises")
def _most(data: xr.Dataset) -> Estimate:
    """Test loss at the largest T."""
    return mean_estimate(data.test_loss.isel(decay=0, points=-1))


def _onset_or_later(data: xr.Dataset, decay: int = 0) -> float:
    """The onset, or a number far beyond all points where there is none."""
    at = onset(data, decay)
    return at if np.isfinite(at) else 2.0 * float(data.points[-1])


def _onset_of_decays(data: xr.Dataset) -> float:
    """The onset with the last decay over that with the first."""
    return _onset_or_later(data, -1) / _onset_or_later(data)


@measures("memorization-decay")
def _removed(data: xr.Dataset) -> Estimate:
    """Share of the bump that the last decay removes, both means of the same sets."""
    top = at_peak(data.test_loss.isel(decay=0)).values
    strong = data.test_loss.isel(decay=-1).transpose("dataset", "points").values

    def removed(sets: np.ndarray) -> float:
        height = top[sets].mean()
        return float((strong[sets].mean(axis=0).max() - height) / (height - 1))

    return resampled_estimate(removed, data.sizes["dataset"])


def _untrained(
    W: np.ndarray, std: float, rngs: list[np.random.Generator], more: list[np.random.Generator]
) -> dict[str, Draws]:
    """Draws from starts of as many sets and from other norms, for the claim on the pentagon."""
    kept = is_represented(W)
    starts = [normal_weights(rng, std, *W.shape) for rng in rngs]
    drawn = [*starts, *(altered.of_norms(W, kept, rng) for rng in more)]
    return {"memorization-pentagon": [share_estimate([*map(is_pentagon, one)]) for one in drawn]}


def _random(
    data: xr.Dataset,
    density: float,
    rngs: list[np.random.Generator],
    more: list[np.random.Generator],
) -> dict[str, Draws]:
    """Draws of hidden vectors in random directions or lengths, and of onsets after the bump."""
    sets, most = data.sizes["dataset"], int(data.points[-1])
    found: dict[str, Draws] = {}
    for size in FEW:
        vectors = _few_vectors(data, size)
        drawn = [same_norms(rng, np.ones(vectors.shape)) for rng in rngs]
        drawn += [altered.of_lengths(vectors, rng) for rng in more]
        found[f"memorization-tgon-{size}"] = [share_estimate([*map(regular, x)]) for x in drawn]
    found["memorization-sample-share"] = [
        mean_estimate(dimensionalities(normal_weights(rng, 1, sets, 2, most)).mean(axis=-1))
        for rng in rngs
    ]
    found["memorization-sample-dimension"] = [
        _uneven([same_norms(rng, np.ones((sets, 2, size))) for size in FEW]) for rng in rngs
    ]
    ends = np.log([bump(data), most])
    found["memorization-onset"] = [density * np.exp(rng.uniform(*ends)) for rng in rngs]
    return found
