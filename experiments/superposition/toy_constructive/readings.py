"""Features that are on together share a direction, and the loss is lower for it."""

from functools import lru_cache

import numpy as np
import xarray as xr
from matplotlib import colormaps
from matplotlib.figure import Figure

from circuitax.figures.palette import BLUE, GREEN, GREY, ORANGE
from circuitax.figures.style import new_figure, sample_note
from circuitax.records.sample import Absent, NotRun, Sample, mean_of, share_of
from circuitax.superposition.feature_laws import feature_covariance
from experiments.superposition.shared.figure_polytopes import arrows

# No decay, the one at which arrangements are looked at, and the strongest.
NONE, MIDDLE, STRONG = DECAYS = (0.0, 0.1, 0.3)
# Correlation from which features lie on a circle.
ON_CIRCLE = 0.95


def helpful(data: xr.Dataset, kind: str) -> Sample:
    """What others add to the feature that has least in each network, and above its mean exchange.

    Covariance of the two over the variance of the feature, without decay.
    """
    products, C = _between(data, kind, NONE)
    n, variance = data.sizes["feature"], np.diagonal(C)
    each = (products * C).sum(axis=-1) / variance
    # Over all exchanges of features every pair has the mean of ``W^T W`` over pairs.
    mean = products.sum(axis=(-2, -1))[..., None] / (n * (n - 1))
    above = each - mean * (C.sum(axis=-1) - variance) / variance
    return mean_of(np.minimum(each, above).min(axis=-1))


def arranged(data: xr.Dataset, kind: str) -> Sample:
    """Loss over that of random exchanges of directions, without decay."""
    _require(data)
    return mean_of((data.loss / data.permuted_loss).sel(kind=kind, decay=NONE))


def on_circle(data: xr.Dataset) -> Sample:
    """Share of seeds whose circular features lie on a circle at the middle decay."""
    _require(data)
    # A cosine has no length: a dead feature would count as one on the circle.
    found = _follow_places(data, feature_products(data))
    return share_of(_at(data, found, MIDDLE) >= ON_CIRCLE)


def side_by_side(data: xr.Dataset) -> Sample:
    """Cosines inside clusters less those between them at the middle decay."""
    _require(data)
    return mean_of(_at(data, clusters(data), MIDDLE))


def decay_helps(data: xr.Dataset, kind: str) -> Sample:
    """What others add to features over what they add themselves, with decay less without.

    ``sum_{i, j != i} (W^T W)_ij C_ij / sum_i (W^T W)_ii C_ii``, C the covariance of features. Decay
    shortens all features, and a sum that follows their norms would fall with them.
    """
    shares = []
    for decay in (STRONG, NONE):
        products, C = _between(data, kind, decay)
        own = np.diagonal(_products_of(data, kind, decay), axis1=-2, axis2=-1) * np.diagonal(C)
        shares.append((products * C).sum(axis=(-2, -1)) / own.sum(axis=-1))
    return mean_of(shares[0] - shares[1])


def clearer(data: xr.Dataset) -> dict[str, Sample]:
    """Changes of the arrangement's clarity from no decay to the strongest one."""
    _require(data)
    circle = _follow_places(data, feature_cosines(data))
    return {
        f"constructive-{name}-decay": mean_of(_at(data, values, STRONG) - _at(data, values, NONE))
        for name, values in (("circle", circle), ("clusters", clusters(data)))
    }


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


def clusters(data: xr.Dataset) -> np.ndarray:
    """Mean cosine inside clusters less that between them, ``[seed, decay]``."""
    kind = list(data.kind.values).index("clustered")
    found, n = feature_cosines(data)[:, kind], data.sizes["feature"]
    other = ~np.eye(n, dtype=bool)
    inside = data.correlation.values[kind] > 0
    return found[..., inside & other].mean(axis=-1) - found[..., ~inside].mean(axis=-1)


def _follow_places(data: xr.Dataset, products: np.ndarray) -> np.ndarray:
    """Correlation over pairs of circular features with the cosine of their places."""
    found = products[:, list(data.kind.values).index("circular")]
    n = data.sizes["feature"]
    turn = 2 * np.pi * np.arange(n) / n
    pair = np.triu_indices(n, 1)
    places = np.cos(turn[:, None] - turn[None, :])[pair]
    rows = found[..., pair[0], pair[1]]
    rows = rows - rows.mean(axis=-1, keepdims=True)
    places = places - places.mean()
    follow: np.ndarray = rows @ places / np.sqrt((rows**2).sum(axis=-1) * (places @ places))
    return follow


def _products_of(data: xr.Dataset, kind: str, decay: float) -> np.ndarray:
    """``W^T W`` of one kind and decay, ``[seed, feature, feature]``."""
    _require(data)
    return _at(data, feature_products(data)[:, list(data.kind.values).index(kind)], decay)


def _between(data: xr.Dataset, kind: str, decay: float) -> tuple[np.ndarray, np.ndarray]:
    """``W^T W`` with 0 on its diagonal, and the covariance of features."""
    correlation = data.correlation.sel(kind=kind).transpose("feature", "other").values
    C = _covariance(correlation.tobytes(), len(correlation), data.attrs["density"])
    return _products_of(data, kind, decay) * ~np.eye(len(C), dtype=bool), C


@lru_cache
def _covariance(correlation: bytes, n: int, density: float) -> np.ndarray:
    """The covariance of features, which all worlds of a record share and quadrature is slow for."""
    return feature_covariance(np.frombuffer(correlation).reshape(n, n), density)


def _at(data: xr.Dataset, values: np.ndarray, decay: float) -> np.ndarray:
    """The part of one decay, of ``[seed, decay, ...]``."""
    part: np.ndarray = values[:, data.decay.values.tolist().index(decay)]
    return part


def _require(data: xr.Dataset) -> None:
    """Refuse runs of other decays."""
    if not set(DECAYS) <= set(data.decay.values.tolist()):
        raise NotRun("this run has other decays")
    if not data.alive.all():
        raise Absent("a network diverged")


def arrangement(data: xr.Dataset) -> Figure:
    """The first two hidden dimensions of every kind (rows) and decay (columns), first seed."""
    kinds, decays = data.kind.values, data.decay.values
    figure, axes = new_figure(len(kinds), len(decays), height=4.4)
    n, size = data.sizes["feature"], data.sizes["feature"] // data.attrs["n_clusters"]
    wheel = colormaps["twilight"](np.arange(n) / n)
    clustered = np.repeat([BLUE, ORANGE, GREEN, GREY], size)[:n]
    for i, kind in enumerate(kinds):
        colours = list(clustered) if kind == "clustered" else list(wheel)
        for j, decay in enumerate(decays):
            ax, W = axes[i, j], data.W.sel(kind=kind, decay=decay).isel(seed=0).values
            arrows(ax, W[:2], colours, linewidth=1.2, marker="")
            limit = 1.1 * float(np.abs(W).max())
            ax.set(xlim=(-limit, limit), ylim=(-limit, limit))
            if i == 0:
                ax.set_title(f"weight decay {decay:g}", fontsize=7)
        axes[i, 0].set_ylabel(kind)
    sample_note(figure, f"first of {data.sizes['seed']} seeds")
    return figure
