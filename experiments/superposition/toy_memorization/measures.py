"""Measured values of the claims on memorisation, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate, share_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from circuitax.superposition.geometry.directions import gaps
from experiments.superposition.toy_memorization.claims import CLAIMS

FEW = (5, 8)
TOLERANCE = 0.25
CORNERS = 5


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    loss = data.theory_loss
    found: dict[str, Estimate] = {
        "memorization-exact": exact(loss.sel(scale=1.0).max()),
        "memorization-least": exact(loss.sel(scale=0.99).min()),
    }
    sizes = set(data.points.values.tolist())
    wanted = set(FEW) <= sizes and len(sizes) > 5 and data.sizes["dataset"] > 1
    if wanted and bool(np.isfinite(data.test_loss).all()):
        found |= _samples(data) | _features(data) | _descent(data, record.notes["density"])
    reason = "this run has other numbers of points, one set or decay, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def regular(vectors: np.ndarray) -> bool:
    """Whether directions ``[2, n]`` have equal gaps, within a quarter."""
    wanted = 360 / vectors.shape[1]
    return bool((np.abs(gaps(vectors) - wanted) <= TOLERANCE * wanted).all())


def represented(W: np.ndarray) -> np.ndarray:
    """The features of a model ``[2, n]`` whose norm is above half of the largest."""
    norm = np.linalg.norm(W, axis=0)
    return W[:, norm > norm.max() / 2]


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
    rows = values.transpose("dataset", "points")
    halves = [rows[half::2, 1:-1].mean("dataset").argmax("points") for half in (1, 0)]
    places = [int(halves[i % 2]) + 1 for i in range(rows.sizes["dataset"])]
    return rows.isel(points=xr.DataArray(places, dims="dataset"))


def onset(data: xr.Dataset) -> float:
    """The first number of points from which on the mean test loss stays below 1; NaN for none."""
    above = data.test_loss.isel(decay=0).mean("dataset").values >= 1
    first = int(np.flatnonzero(above)[-1]) + 1 if above.any() else 0
    return float(data.points[first]) if first < above.size else float("nan")


def _samples(data: xr.Dataset) -> dict[str, Estimate]:
    """Polygons of hidden vectors."""
    found = {}
    for size in FEW:
        vectors = data.hidden_vectors.sel(points=size).values[..., :size]
        found[f"memorization-tgon-{size}"] = share_estimate([regular(one) for one in vectors])
    first = data.isel(decay=0)
    few = first.sample_dimension.sel(points=list(FEW))
    found["memorization-sample-dimension"] = mean_estimate((few * few.points / 2).mean("points"))
    norm = np.linalg.norm(vectors, axis=1).mean(axis=1)
    least = float(data.least_norm.sel(points=FEW[-1]))
    found["memorization-least-norm"] = mean_estimate(norm / least)
    return found


def _features(data: xr.Dataset) -> dict[str, Estimate]:
    """Dimensions of features, and the pentagon."""
    first, most = data.isel(decay=0), data.points.values[-1]
    ordered = np.sort(first.feature_dimension.transpose("points", "dataset", "feature").values)
    few = list(data.points.values).index(FEW[-1])
    return {
        "memorization-no-features": mean_estimate(ordered[few, :, -CORNERS]),
        "memorization-pentagon": share_estimate(pentagons(data)),
        "memorization-feature-dimension": mean_estimate(ordered[-1, :, -CORNERS:].mean(axis=1)),
        "memorization-sample-share": mean_estimate(first.sample_dimension.sel(points=most)),
        "memorization-norm-plateau": mean_estimate(first.W_norm.sel(points=most)),
    }


def pentagons(data: xr.Dataset) -> list[bool]:
    """Whether each of the largest training sets made five features a regular pentagon."""
    kept = [represented(W) for W in data.W.sel(points=data.points.values[-1]).values]
    return [W.shape[1] == CORNERS and regular(W) for W in kept]


def _descent(data: xr.Dataset, density: float) -> dict[str, Estimate]:
    """Test loss and norms over the number of points."""
    first = data.isel(decay=0)
    test, norm = first.test_loss, first.W_norm
    top, most = at_peak(test), test.isel(points=-1)
    ends = norm.isel(points=[0, -1]).max("points")
    found = {
        "memorization-bump-low": mean_estimate(top - test.isel(points=0)),
        "memorization-bump-height": mean_estimate(top),
        "memorization-bump-high": mean_estimate(top - most),
        "memorization-generalises": mean_estimate(most),
        "memorization-norm-peak": mean_estimate(at_peak(norm) / ends),
    }
    never = 2.0 * data.points.values[-1]  # where the loss never stays below 1

    def onset_of(sets: np.ndarray) -> float:
        at = onset(data.isel(dataset=sets))
        return density * (at if np.isfinite(at) else never)

    found["memorization-onset"] = resampled_estimate(onset_of, data.sizes["dataset"])
    if data.sizes["decay"] > 1:
        strong = data.test_loss.isel(decay=-1)
        highest = strong.isel(points=int(strong.mean("dataset").argmax("points")))
        found["memorization-decay"] = mean_estimate((highest - top) / (top.mean() - 1))
    return found
