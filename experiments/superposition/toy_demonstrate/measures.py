"""Measured values of the claims on linear and ReLU models over sparsity, from a record."""

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import shuffled
from circuitax.records.null_samples import DRAWS
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from circuitax.superposition.polytopes import Phase, phases, polytopes
from experiments.superposition.shared.random_weights import normal_weights
from experiments.superposition.toy_demonstrate.claims import (
    CLAIMS,
    COUNTS,
    NOTEBOOK_COUNTS,
    NOTEBOOK_SQUARES,
    RANGES,
    SQUARE_ALLOWED,
)

# A feature is represented when its norm is above this.
REPRESENTED = 0.5
# A bias is negative, and interference positive, when it is this far from 0.
LEAST = 0.01
N_DRAWS = 100
SIZES = (20, 5, 80, 20, 100, 20)


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if _wanted(data):
        found = _linear(data) | _counts(data) | _later(data)
        found |= _optimum(data) | _large(data)
        if 0.001 in data.density.values:
            found |= _interference(data, 0.001)
    reason = "this run has other sizes, importances or densities, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: networks at their start, and the larger model at other densities."""
    data = record.data
    if not _wanted(data):
        return {}
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    starts = [_at_start(record, rng) for rng in rngs]
    found = [_linear(one) for one in starts]
    several: dict[str, Draws] = {name: [draw[name] for draw in found] for name in found[0]}
    best = max(int(data.relu_best.sel(density=0.001)), 0)
    denser = [_interference(data, p) for p in data.density.values if p >= 0.03]
    elsewhere = [
        _counts(data.assign(relu_W=data.relu_W.roll(density=shift)))
        for shift in range(1, data.sizes["density"])
    ]
    return {
        "untrained": several,
        "permuted": {"demonstrate-less-important-first": _reordered(data)},
        "mismatched": {
            "demonstrate-tail": [float(_in_tail(data.relu_W.sel(density=0.001).isel(seed=best)))],
            **{name: [draw[name] for draw in denser] for name in denser[0]},
            **{name: [draw[name] for draw in elsewhere] for name in elsewhere[0]},
            **_beside(data),
            "T7-dense-relu": [_unlike_linear(data, p) for p in data.density.values if p < 1],
            "demonstrate-rescaled": [
                _rescaled(data.assign(scaled_norm=data.scaled_norm.roll(density=-shift)))
                for shift in range(1, data.sizes["density"])
            ],
        },
    }


def _wanted(data: xr.Dataset) -> bool:
    """Whether a run has the sizes that the claims are about, and no network diverged."""
    names = ("feature", "hidden", "scaled_feature", "scaled_hidden", "notebook_feature")
    sizes = tuple(data.sizes[name] for name in (*names, "notebook_hidden"))
    alive = [data[f"{name}_alive"].all() for name in ("relu", "linear", "scaled", "notebook")]
    return sizes == SIZES and all(bool(each) for each in alive)


def _at_start(record: Record, rng: np.random.Generator) -> xr.Dataset:
    """As many networks at their start: the same at all densities of a seed, without biases."""
    data, std = record.data, record.notes["init_std"]
    seeds, hidden, features = (data.sizes[name] for name in ("seed", "hidden", "feature"))
    W = normal_weights(rng, std["small"], seeds, 1, hidden, features) + np.zeros(data.relu_W.shape)
    arrays = {"relu_W": W, "linear_W": W, "linear_b": np.zeros(data.linear_b.shape)}
    return data.assign({name: (data[name].dims, value) for name, value in arrays.items()})


def _reordered(data: xr.Dataset) -> Draws:
    """Differences in importance where the most important features are shuffled among themselves."""
    name, few = "demonstrate-less-important-first", {"feature": slice(data.sizes["hidden"])}
    if 0.3 not in data.density.values:
        return [None]
    top, arrays = data.sel(density=[0.3]).isel(few), ["relu_W", "relu_interference"]
    rng = np.random.default_rng(0)
    drawn = (shuffled(top, arrays, "feature", rng, ["seed", "density"]) for _ in range(DRAWS))
    return [_later(one).get(name) for one in drawn]


def _beside(data: xr.Dataset) -> dict[str, Draws]:
    """Numbers of the notebook's model where a density has the networks of one beside it."""
    norm, less, more = data.notebook_norm, slice(None, -1), slice(1, None)
    drawn = []
    for here, there in ((less, more), (more, less)):
        theirs = (norm.dims, norm.isel(notebook_density=there).values)
        drawn.append(_notebook(data.isel(notebook_density=here).assign(notebook_norm=theirs)))
    found: dict[str, Draws] = {
        name: [draw[name] for draw in drawn if name in draw] or [None] for name in _notebook(data)
    }
    worlds = _one_off(data) | _either_side(data)
    return found | {name: [*found[name], *draws] for name, draws in worlds.items()}


def _one_off(data: xr.Dataset) -> dict[str, list[Estimate]]:
    """Misses of printed counts where every network has one feature fewer, or one more, than those.

    In such worlds no network has a printed count: what is allowed must refuse them.
    """
    norm, rank = data.notebook_norm, np.arange(data.sizes["notebook_feature"])
    counts = {density: ends for (what, density), ends in RANGES.items() if what == "count"}
    found: dict[str, list[Estimate]] = {}
    for density, (least, most) in counts.items():
        worlds = [norm.copy(data=np.ones(norm.shape) * (rank < n)) for n in (least - 1, most + 1)]
        drawn = [_notebook(data.assign(notebook_norm=world)) for world in worlds]
        name = f"demonstrate-notebook-count-p{density:g}"
        found |= {name: [draw[name] for draw in drawn]} if name in drawn[0] else {}
    return found


def _either_side(data: xr.Dataset) -> dict[str, list[Estimate]]:
    """Misses of printed squares where half of the networks are below, and half above, by too much.

    Their mean is what is printed, which none of them has.
    """
    norm, n_features = data.notebook_norm, data.sizes["notebook_feature"]
    side = xr.DataArray(np.where(np.arange(data.sizes["seed"]) % 2, 1, -1), dims="seed")
    found: dict[str, list[Estimate]] = {}
    for density, square in NOTEBOOK_SQUARES.items():
        each = np.sqrt((square + 2 * SQUARE_ALLOWED[density] * side) / n_features)
        drawn = _notebook(data.assign(notebook_norm=xr.ones_like(norm) * each))
        name = f"demonstrate-notebook-frobenius-p{density:g}"
        found |= {name: [drawn[name]]} if name in drawn else {}
    return found


def best_weights(data: xr.Dataset, name: str = "relu") -> np.ndarray:
    """Weights of the network with the lowest exact loss at every density."""
    best = np.maximum(data[f"{name}_best"].values, 0)
    return data[f"{name}_W"].values[best, np.arange(best.size)]


def represented(data: xr.Dataset) -> np.ndarray:
    """Represented features of every trained small ReLU network, ``[seed, density]``."""
    return (np.linalg.norm(data.relu_W.values, axis=2) > REPRESENTED).sum(axis=-1)


@measures("T7-bias", "T7-gram", "linear-bias-sparse")
def _linear(data: xr.Dataset) -> dict[str, Estimate]:
    """The linear model is principal components: the most important features, whatever p is."""
    n, m = data.sizes["feature"], data.sizes["hidden"]
    miss = np.abs(_grams(data.linear_W) - np.diag(np.arange(n) < m)).max(axis=(-2, -1))
    p, ignored = data.density.values, np.arange(n) >= m
    off = np.abs(data.linear_b.values / (p[:, None] / 2) - ignored)
    each = off[..., ignored].mean(axis=-1)
    found = {
        "T7-gram": mean_estimate(miss.max(axis=1)),
        "linear-bias-sparse": resampled_estimate(
            lambda seeds: float(each[seeds].mean(axis=0).max()), len(each)
        ),
    }
    if 1 in p:
        dense = off[:, p == 1].mean(axis=1)
        found["T7-bias"] = mean_estimate(dense[:, dense.mean(axis=0).argmax()])
        found["T7-dense-relu"] = _unlike_linear(data, 1.0)
    return found


def _grams(W: xr.DataArray) -> np.ndarray:
    """``W^T W`` of each network, ``[..., feature, feature]``."""
    return np.einsum("...ki,...kj->...ij", W.values, W.values)


@measures("T7-dense-relu")
def _unlike_linear(data: xr.Dataset, density: float) -> Estimate:
    """Greatest difference of an entry of W^T W between the ReLU model and the dense linear one."""
    relu, linear = (
        data[f"{name}_W"].sel(density=p) for name, p in (("relu", density), ("linear", 1))
    )
    return mean_estimate(np.abs(_grams(relu) - _grams(linear)).max(axis=(-2, -1)))


@measures("demonstrate-count-*", "demonstrate-digons-p0.03")
def _counts(data: xr.Dataset) -> dict[str, Estimate]:
    """Differences of represented features from the printed count, and the share of five digons."""
    found, kept = {}, represented(data)
    for i, p in enumerate(data.density.values):
        if p in COUNTS:
            found[f"demonstrate-count-p{p:g}"] = mean_estimate(np.abs(kept[:, i] - COUNTS[p]))
    if 0.03 in data.density.values:
        digons = [_digons(W) == 5 for W in data.relu_W.sel(density=0.03).values]
        found["demonstrate-digons-p0.03"] = share_estimate(digons)
    return found


def _digons(W: np.ndarray) -> int:
    """Antipodal pairs of a network."""
    return [name for name, _ in polytopes(W)].count("digon")


@measures("demonstrate-less-important-first")
def _later(data: xr.Dataset) -> dict[str, Estimate]:
    """Places in importance by which superposed features stand behind dedicated ones.

    Of the most important alone: what lies beyond the dimensions has to share one.
    """
    if 0.3 not in data.density.values:
        return {}
    cell = data.sel(density=0.3).isel(feature=slice(data.sizes["hidden"]))
    norm = np.linalg.norm(cell.relu_W.values, axis=1)
    shares = phases(norm, cell.relu_interference.values)
    rank = np.arange(cell.sizes["feature"])
    difference = np.array(
        [
            rank[s == Phase.superposed].mean() - rank[s == Phase.dedicated].mean()
            for s in shares
            if Phase.superposed in s and Phase.dedicated in s
        ]
    )
    if difference.size < len(shares):  # in some network all are alike
        return {}
    return {"demonstrate-less-important-first": mean_estimate(difference)}


@measures("demonstrate-negative-bias", "demonstrate-positive-interference")
def _interference(data: xr.Dataset, density: float) -> dict[str, Estimate]:
    """Shares of the represented features that have a negative bias, and positive interference."""
    cell = data.sel(density=density)
    bias, positive = [], []
    for W, b in zip(cell.relu_W.values, cell.relu_b.values, strict=True):
        kept = np.linalg.norm(W, axis=0) > REPRESENTED
        gram = W[:, kept].T @ W[:, kept]
        bias.append((b[kept] <= -LEAST).mean())
        squares = np.maximum(gram - np.diag(np.diag(gram)), 0) ** 2
        positive.append((squares.sum(axis=0) >= LEAST).mean())
    return {
        "demonstrate-negative-bias": _bounded(bias),
        "demonstrate-positive-interference": _bounded(positive),
    }


def _bounded(samples: ArrayLike) -> Estimate:
    """Mean of the seeds, whose interval stays within the range of the samples."""
    of_seed = np.asarray(samples)
    return resampled_estimate(lambda seeds: float(of_seed[seeds].mean()), of_seed.size)


@measures("demonstrate-optimum-below", "demonstrate-tail")
def _optimum(data: xr.Dataset) -> dict[str, Estimate]:
    """Attainment of the optimum by training, and its shape where features are sparsest."""
    ratio = data.relu_loss.values / data.optimum_loss.values
    found = {"demonstrate-optimum-below": exact(np.nanmin(ratio), data.sizes["seed"])}
    if 0.001 in data.density.values:
        found["demonstrate-tail"] = exact(_in_tail(data.optimum_W.sel(density=0.001)))
    return found


def _in_tail(W: xr.DataArray) -> int:
    """Features that are there and not represented."""
    norm = np.linalg.norm(W.transpose("hidden", "feature").values, axis=0)
    return int(((norm > 0.1) & (norm < REPRESENTED)).sum())


def _large(data: xr.Dataset) -> dict[str, Estimate]:
    """Counts of the two larger models."""
    return {"demonstrate-rescaled": _rescaled(data), **_notebook(data)}


@measures("demonstrate-rescaled")
def _rescaled(data: xr.Dataset) -> Estimate:
    """Greatest difference between the represented features per dimension of both sizes."""
    small = represented(data) / data.sizes["hidden"]
    large = (data.scaled_norm.values > REPRESENTED).sum(axis=-1) / data.sizes["scaled_hidden"]
    return resampled_estimate(
        lambda i: float(np.abs(large[i].mean(axis=0) - small[i].mean(axis=0)).max()), len(small)
    )


@measures("demonstrate-notebook-*")
def _notebook(data: xr.Dataset) -> dict[str, Estimate]:
    """Distances of the notebook's counts and squared norms from two runs, and one count itself."""
    found = {}
    norms = data.notebook_norm.values
    numbers = {"count": (norms > REPRESENTED).sum(axis=-1), "frobenius": (norms**2).sum(axis=-1)}
    for i, p in enumerate(data.notebook_density.values):
        for density in NOTEBOOK_COUNTS:
            if abs(p / density - 1) >= 0.02:
                continue
            for what, of_all in numbers.items():
                of_seed, quantity = of_all[:, i], f"demonstrate-notebook-{what}-p{density:g}"
                if (what, density) in RANGES:
                    beyond = np.abs(of_seed - np.clip(of_seed, *RANGES[what, density]))
                    found[quantity] = _bounded(beyond)
                else:
                    found[quantity] = mean_estimate(of_seed)
    return found
