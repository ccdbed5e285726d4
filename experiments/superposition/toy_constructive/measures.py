"""Measured values of the claims on dependent features, from a record."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import (
    Estimate,
    geometric_estimate,
    mean_estimate,
    share_estimate,
)
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import shuffled
from circuitax.records.null_samples import DRAWS
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from circuitax.superposition.feature_laws import feature_covariance
from experiments.superposition.toy_constructive.claims import CLAIMS, DEPENDENT

DECAYS = (0.0, 0.1, 0.3)
# Correlation from which features lie on a circle.
ON_CIRCLE = 0.95
N_DRAWS = 100
# Features of each part that keep their directions in worlds of the null.
KEPT = (2, 3)
# Clumps and dead features of worlds without a whole circle of twelve features.
NO_CIRCLE = ((6, 0), (4, 0), (3, 0), (2, 0), (12, 1), (12, 2), (12, 3), (12, 6))
DEAD = 0.05  # length of a dead feature, where the others have 1


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if _wanted(data):
        density = record.notes["density"]
        found = _losses(data) | _helpful(data, density) | _of_decays(data, density)
        found["constructive-circle"] = _on_circle(data)
        found["constructive-clusters"] = _side_by_side(data)
    reason = "this run has other decays, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: shuffled decays and features, other features, exchanged sides, clumps."""
    data = record.data
    if not _wanted(data):
        return {}
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    decays = [shuffled(data, ["W"], "decay", rng, ["seed", "kind"]) for rng in rngs]
    places = [shuffled(data, ["W"], "feature", rng, ["seed"]) for rng in rngs]
    of_decays = [_of_decays(one, record.notes["density"]) for one in decays]
    kept = (_some_kept(data, rng, n_kept) for n_kept in KEPT for rng in rngs)
    worlds = (*(_one_part_kept(data, rng) for rng in rngs), *kept, *places)
    of_worlds = [_helpful(one, record.notes["density"]) for one in worlds]
    change = abs(data.permuted_loss / data.loss - 1).mean("decay")
    exchanged = np.log(data.loss / data.permuted_loss).sel(kind="independent", decay=0.0).values
    against = np.log(data.loss.sel(decay=0.0) / data.linear_loss).transpose("kind", "seed").values
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, *against.shape))
    independent = [mean_estimate(np.exp(rows[0] * exchanged)) for rows in signs]
    return {
        "mismatched": {
            "constructive-control": [mean_estimate(change.sel(kind=kind)) for kind in DEPENDENT],
            **{f"constructive-arranged-{kind}": independent for kind in DEPENDENT},
        },
        "permuted": {
            "constructive-linear": [_worst(np.exp(rows * against)) for rows in signs],
            "constructive-clusters": [_side_by_side(one) for one in places],
        }
        | {
            f"constructive-loss-{kind}": [
                geometric_estimate(rows[0] * _beside_linear(data, kind)) for rows in signs
            ]
            for kind in DEPENDENT
        }
        | {name: [draw[name] for draw in of_decays] for name in of_decays[0]},
        "false world": {
            "constructive-circle": [_on_circle(one) for one in (*_no_circle(data), places[0])],
            **{name: [draw[name] for draw in of_worlds] for name in of_worlds[0]},
        },
    }


def _one_part_kept(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The data with one part of each network as it is, and all other features exchanged."""
    return _others_exchanged(data, rng, lambda parts: parts[rng.integers(len(parts))])


def _some_kept(data: xr.Dataset, rng: np.random.Generator, n_kept: int) -> xr.Dataset:
    """The data with some neighbours of each part as they are, and all other features exchanged."""

    def neighbours(parts: np.ndarray) -> np.ndarray:
        starts = rng.integers(np.maximum(parts.sum(axis=1) - n_kept, 0) + 1)
        place = np.cumsum(parts, axis=1) - 1 - starts[:, None]
        kept: np.ndarray = (parts & (place >= 0) & (place < n_kept)).any(axis=0)
        return kept

    return _others_exchanged(data, rng, neighbours)


def _others_exchanged(
    data: xr.Dataset, rng: np.random.Generator, kept: Callable[[np.ndarray], np.ndarray]
) -> xr.Dataset:
    """The data where each network keeps the features chosen of its parts and exchanges the rest."""
    W = data.W.transpose("kind", "seed", ..., "feature").copy(deep=True)
    for kind in DEPENDENT:
        parts = _parts(data, kind)
        for network in W.values[list(data.kind.values).index(kind)]:
            others = np.flatnonzero(~kept(parts))
            network[..., others] = network[..., rng.permutation(others)]
    return data.assign(W=W)


def _parts(data: xr.Dataset, kind: str) -> np.ndarray:
    """Which features are of each cluster, or of each third of the circle, ``[part, feature]``."""
    if kind == "clustered":
        clusters: np.ndarray = np.unique(data.correlation.sel(kind=kind).values > 0, axis=0)
        return clusters
    n = data.sizes["feature"]
    return np.arange(n) * 3 // n == np.arange(3)[:, None]


def _no_circle(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The data with features in clumps on a circle, or on an even one where some are dead."""
    n, W = data.sizes["feature"], data.W.transpose(..., "hidden", "feature").copy(deep=True)
    for n_clumps, n_dead in NO_CIRCLE:
        turn = 2 * np.pi * (np.arange(n) * n_clumps // n) / n_clumps
        length = np.where(np.arange(n) < n_dead, DEAD, 1)
        W[..., 2:, :], W[..., :2, :] = 0, length * np.stack([np.cos(turn), np.sin(turn)])
        yield data.assign(W=W.copy(deep=True))


def feature_products(data: xr.Dataset) -> np.ndarray:
    """``W^T W``, ``[seed, kind, decay, feature, feature]``."""
    W = data.W.transpose("seed", "kind", "decay", "hidden", "feature").values.astype(float)
    return np.swapaxes(W, -1, -2) @ W


def feature_cosines(data: xr.Dataset) -> np.ndarray:
    """Cosine between every two features, ``[seed, kind, decay, feature, feature]``."""
    found = feature_products(data)
    norms = np.maximum(np.sqrt(np.diagonal(found, axis1=-2, axis2=-1)), 1e-12)
    cosines: np.ndarray = found / (norms[..., :, None] * norms[..., None, :])
    return cosines


def circle(data: xr.Dataset) -> np.ndarray:
    """Fit of cosines of circular features to their places, ``[seed, decay]``."""
    return _follow_places(data, feature_cosines(data))


def _follow_places(data: xr.Dataset, products: np.ndarray) -> np.ndarray:
    """Correlation over pairs of circular features with the cosine of their places."""
    found = products[:, list(data.kind.values).index("circular")]
    n = data.sizes["feature"]
    turn = 2 * np.pi * np.arange(n) / n
    pair = np.triu_indices(n, 1)
    places = np.cos(turn[:, None] - turn[None, :])[pair]
    rows = found[..., pair[0], pair[1]]
    return np.apply_along_axis(lambda row: np.corrcoef(row, places)[0, 1], -1, rows)


def clusters(data: xr.Dataset) -> np.ndarray:
    """Mean cosine inside clusters less that between them, ``[seed, decay]``."""
    kind = list(data.kind.values).index("clustered")
    found, n = feature_cosines(data)[:, kind], data.sizes["feature"]
    other = ~np.eye(n, dtype=bool)
    inside = data.correlation.values[kind] > 0
    return found[..., inside & other].mean(axis=-1) - found[..., ~inside].mean(axis=-1)


def interference(data: xr.Dataset, density: float, decay: int = 0) -> xr.DataArray:
    """Covariance of features with what all others add to them, over variance, ``[seed, kind]``.

    ``sum_{i, j != i} (W^T W)_ij C_ij / sum_i C_ii`` at one decay, C the covariance of features.

    Args:
        data: Data of a record.
        density: p in (0, 1).
        decay: Its index; the first is the least.
    """
    products, C = _between_features(data, density, decay)
    loss = data.loss.isel(decay=decay, drop=True).transpose("seed", "kind")
    covariance = (products * C).sum(axis=(-2, -1))
    return loss.copy(data=covariance / np.trace(C, axis1=-2, axis2=-1))


def _between_features(data: xr.Dataset, density: float, decay: int) -> tuple[np.ndarray, ...]:
    """``W^T W`` with 0 on its diagonal, and covariances of features.

    ``[seed, kind, feature, feature]`` and ``[kind, feature, feature]``.
    """
    C = np.stack([feature_covariance(R, density) for R in data.correlation.values])
    return feature_products(data)[:, :, decay] * ~np.eye(C.shape[-1], dtype=bool), C


def ratio(data: xr.Dataset) -> xr.DataArray:
    """Loss over that of independent features of the same seed and decay."""
    return data.loss / data.loss.sel(kind="independent")


def _wanted(data: xr.Dataset) -> bool:
    """Whether a run has the decays that the claims are about, and no network diverged."""
    return set(DECAYS) <= set(data.decay.values.tolist()) and bool(data.alive.all())


@measures("constructive-loss-*", "constructive-control", "constructive-linear")
def _losses(data: xr.Dataset) -> dict[str, Estimate]:
    """Losses beside those of independent features, of exchanged ones and of linear models."""
    found = {
        f"constructive-loss-{kind}": geometric_estimate(_beside_linear(data, kind))
        for kind in DEPENDENT
    }
    independent = (data.permuted_loss / data.loss).sel(kind="independent")
    against = (data.loss.sel(decay=0.0) / data.linear_loss).transpose("seed", ...).values
    linear = resampled_estimate(
        lambda seeds: float(against[seeds].mean(axis=0).max()), len(against)
    )
    return (
        found
        | _arranged(data)
        | {
            "constructive-control": mean_estimate(abs(independent - 1).mean("decay")),
            "constructive-linear": linear,
        }
    )


def _beside_linear(data: xr.Dataset, kind: str) -> np.ndarray:
    """Log of the ratio of losses without decay over that of the best linear models, ``[seed]``."""
    linear = data.linear_loss.sel(kind=kind) / data.linear_loss.sel(kind="independent")
    logs: np.ndarray = np.log((ratio(data).sel(kind=kind, decay=0.0) / linear).values)
    return logs


@measures("constructive-arranged-*")
def _arranged(data: xr.Dataset) -> dict[str, Estimate]:
    """Loss over that of random exchanges of directions."""
    exchanged = data.loss / data.permuted_loss
    return {
        f"constructive-arranged-{kind}": mean_estimate(exchanged.sel(kind=kind, decay=0.0))
        for kind in DEPENDENT
    }


def _worst(ratios: np.ndarray) -> Estimate:
    """The mean over seeds of the kind whose mean is greatest, of ``[kind, seed]``."""
    return max(map(mean_estimate, ratios), key=lambda estimate: estimate.value)


@measures("constructive-interference-*")
def _helpful(data: xr.Dataset, density: float) -> dict[str, Estimate]:
    """Interference of the feature that has least in each network, and above its mean exchange."""
    products, C = _between_features(data, density, 0)
    n, variance = data.sizes["feature"], np.diagonal(C, axis1=-2, axis2=-1)
    each = (products * C).sum(axis=-1) / variance
    # Over all exchanges of features every pair has the mean of ``W^T W`` over pairs.
    mean = products.sum(axis=(-2, -1))[..., None] / (n * (n - 1))
    above = each - mean * (C.sum(axis=-1) - variance) / variance
    least = np.minimum(each, above).min(axis=-1)
    return {
        f"constructive-interference-{kind}": mean_estimate(
            least[:, list(data.kind.values).index(kind)]
        )
        for kind in DEPENDENT
    }


@measures("constructive-clusters")
def _side_by_side(data: xr.Dataset) -> Estimate:
    """Cosines inside clusters less those between them at the middle decay."""
    middle = data.decay.values.tolist().index(DECAYS[1])
    return mean_estimate(clusters(data)[:, middle])


@measures("constructive-circle")
def _on_circle(data: xr.Dataset) -> Estimate:
    """Share of seeds whose circular features lie on a circle at the middle decay."""
    middle = data.decay.values.tolist().index(DECAYS[1])
    # A cosine has no length: a dead feature would count as one on the circle.
    found = _follow_places(data, feature_products(data))
    return share_estimate(found[:, middle] >= ON_CIRCLE)


@measures("constructive-decay-*", "constructive-circle-decay", "constructive-clusters-decay")
def _of_decays(data: xr.Dataset, density: float) -> dict[str, Estimate]:
    """Changes from no decay to the strongest one, and the share of seeds that rise."""
    decays = data.decay.values.tolist()
    none, high = (decays.index(decay) for decay in (DECAYS[0], DECAYS[2]))
    change = interference(data, density, high) - interference(data, density, none)
    found = {
        f"constructive-decay-{kind}": share_estimate(change.sel(kind=kind) > 0)
        for kind in DEPENDENT
    }
    for name, values in (("circle", circle(data)), ("clusters", clusters(data))):
        found[f"constructive-{name}-decay"] = mean_estimate(values[:, high] - values[:, none])
    return found
