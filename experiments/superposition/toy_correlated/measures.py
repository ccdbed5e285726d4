"""Measured values of the claims on correlated and anticorrelated features, from a record."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import shuffled
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import best_estimate
from circuitax.superposition.polytopes import angles, gaps
from experiments.superposition.shared.random_weights import same_norms
from experiments.superposition.toy_correlated.claims import CLAIMS, COLLAPSED, MOST

# A pair is collapsed when its members are at most this many degrees apart.
COLLAPSED_ANGLE = 20.0
NEAR = 10.0
# A feature of a lesser norm has no direction that means anything.
LEAST_NORM = 0.5
SIZES = (4, 6, 20)
N_DRAWS, N_ALONE, N_PARTNERS = 40, 200, 200
ANGLES = {"correlated": 90, "anticorrelated": 180}  # of partners
PARTNERED = (
    *(f"T8-{name}{of}" for name in ANGLES for of in ("", "-seeds")),
    "correlated-adjacent",
)
HEXAGON = 0.03  # density at which three pairs are told to form one
# Least norm of a hexagon over its greatest; one that is less even misses by as much as one can.
EVEN_NORMS, NO_HEXAGON = 0.9, 180.0


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if _wanted(record):
        found = _pairs(data) | _seeds(data) | _neighbours(data) | _crowded(data) | _basis(data)
        found["correlated-hexagon"] = _hexagon(data)
    reason = "this run has other sizes or densities, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random directions, partners and seeds, other densities, lost features."""
    if not _wanted(record):
        return {}
    data, found = record.data, []
    for i in range(N_DRAWS):
        W = same_norms(np.random.default_rng(i), data.basis_W.values)
        found.append(_basis(data.assign(basis_W=data.basis_W.copy(data=W))))
    alone: dict[str, list[Estimate]] = {}
    for i in range(N_ALONE):
        W = same_norms(np.random.default_rng(i), data.crowded_W.values)
        drawn = data.assign(crowded_W=data.crowded_W.copy(data=W))
        for name, value in _three_pairs(drawn).items():
            alone.setdefault(name, []).append(value)
    rng = np.random.default_rng(0)
    partners = [_pairs(one) | _seeds(one) | _neighbours(one) for one in _mismatched(data, rng)]
    agree = collapsed(data.crowded_W.values) == collapsed(data.crowded_optimum_W.values)
    rng = np.random.default_rng(0)
    mixed = (
        shuffled(data, ["crowded_W"], "crowded_density", rng, ["seed"]) for _ in range(N_PARTNERS)
    )
    rises = [_three_pairs(one)["correlated-collapse-rises"] for one in mixed]
    rng, cells = np.random.default_rng(0), np.arange(agree.shape[1])
    some = agree[rng.integers(len(agree), size=(N_ALONE, len(cells))), cells].mean(axis=1)
    several = {name: [draw[name] for draw in found] for name in found[0]}
    return {
        "permuted": {
            "correlated-trained-collapsed": some,
            "correlated-collapse-rises": rises,
            **{name: [draw.get(name) for draw in partners] for name in PARTNERED},
        },
        "random": {**several, **alone},
        "mismatched": {
            **{f"correlated-collapsed-p{p:g}": _at_others(data, COLLAPSED[p]) for p in MOST},
        },
        "false world": {
            "correlated-hexagon": [
                *(_hexagon(data, q) for q, pairs in COLLAPSED.items() if pairs),
                *(_hexagon(one) for one in _without_hexagon(data)),
            ],
            "correlated-local-bases": [
                _basis(one)["correlated-local-bases"] for one in _without_bases(data)
            ],
        },
    }


def _mismatched(data: xr.Dataset, rng: np.random.Generator) -> Iterator[xr.Dataset]:
    """The data with the features of each trained network paired at random, drawn anew."""
    for _ in range(N_PARTNERS):
        drawn = data
        for name in ("correlated", "anticorrelated", "crowded"):
            drawn = shuffled(drawn, [f"{name}_W"], f"{name}_feature", rng, ["seed"])
        yield drawn


def _without_hexagon(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The three pairs with a feature, or a pair, at a tenth of its norm in every network."""
    features = np.arange(data.sizes["crowded_feature"])
    for lost in (*(features == i for i in features), *(features // 2 == i for i in range(3))):
        left = xr.DataArray(np.where(lost, 0.1, 1.0), dims="crowded_feature")
        yield data.assign(crowded_W=(data.crowded_W * left).transpose(*data.crowded_W.dims))


def _without_bases(data: xr.Dataset) -> Iterator[xr.Dataset]:
    """The two sets with features set to 0 in all networks or in half of them, and shuffled."""
    W, rng = data.basis_W, np.random.default_rng(0)
    seeds, some = W.sizes["seed"], W.sizes["basis_feature"] // 2
    for n_dropped, of in ((1, seeds), (1, seeds // 2), (2, seeds), (some, seeds)):
        order = rng.permuted(np.zeros(W.shape) + np.arange(W.shape[-1]), axis=-1)[..., :1, :]
        order[of:] = some  # nothing is dropped from the other networks
        yield data.assign(basis_W=W.copy(data=W.values * (order >= n_dropped)))
    yield shuffled(data, ["basis_W"], "basis_feature", rng, ["seed"])


def _wanted(record: Record) -> bool:
    """Whether a run has the sizes that the claims are about, and no network diverged."""
    data = record.data
    sizes = tuple(data.sizes[f"{name}_feature"] for name in ("correlated", "crowded", "basis"))
    diverged = sum(arm["diverged"] for arm in record.notes["members"].values())
    return sizes == SIZES and set(COLLAPSED) <= set(data.crowded_density.values) and not diverged


def pair_angles(W: np.ndarray) -> np.ndarray:
    """Angle in degrees between the members of every pair, ``[..., pair]``."""
    first, second = W[..., 0::2], W[..., 1::2]
    norm = np.linalg.norm(first, axis=-2) * np.linalg.norm(second, axis=-2)
    cosine = np.sum(first * second, axis=-2) / np.maximum(norm, 1e-12)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def best_weights(data: xr.Dataset, name: str) -> np.ndarray:
    """Weights of the network with the lowest exact loss at every density."""
    best = np.maximum(data[f"{name}_best"].values, 0)
    return data[f"{name}_W"].values[best, np.arange(best.size)]


def collapsed(W: np.ndarray) -> np.ndarray:
    """Number of pairs with a common direction, ``[...]``."""
    return (pair_angles(W) < COLLAPSED_ANGLE).sum(axis=-1)


@measures("T8-correlated", "T8-anticorrelated")
def _pairs(data: xr.Dataset) -> dict[str, Estimate]:
    """Angles inside two pairs in two dimensions, of the best networks."""
    return {
        f"T8-{name}": best_estimate(data[f"{name}_loss"].values, _miss(data, name), np.max)
        for name in ANGLES
    }


@measures("T8-correlated-seeds", "T8-anticorrelated-seeds")
def _seeds(data: xr.Dataset) -> dict[str, Estimate]:
    """The share of seeds with the wanted angles at all densities, and no feature that is lost."""
    return {
        f"T8-{name}-seeds": share_estimate(
            ((_miss(data, name) < NEAR) & _all_there(data[f"{name}_W"].values)).all(axis=1)
        )
        for name in ANGLES
    }


def _all_there(W: np.ndarray) -> np.ndarray:
    """Whether all features of a network are long enough to have a direction, ``[...]``."""
    there: np.ndarray = (np.linalg.norm(W, axis=-2) >= LEAST_NORM).all(axis=-1)
    return there


def _miss(data: xr.Dataset, name: str) -> np.ndarray:
    """The greatest difference of a pair's angle from the one wanted, ``[seed, density]``."""
    apart = np.abs(pair_angles(data[f"{name}_W"].values) - ANGLES[name])
    greatest: np.ndarray = apart.max(axis=-1)
    return greatest


@measures("correlated-adjacent")
def _neighbours(data: xr.Dataset) -> dict[str, Estimate]:
    """The share of networks without a collapsed pair in which all partners are neighbours."""
    W = data.crowded_W.sel(crowded_density=HEXAGON).values
    apart = [_adjacent(one) == 3 for one in W[(collapsed(W) == 0) & _all_there(W)]]
    return {"correlated-adjacent": share_estimate(apart)} if apart else {}


def _adjacent(W: np.ndarray) -> int:
    """Pairs whose members are neighbours around the circle."""
    pair = np.argsort(angles(W)) // 2
    return int((pair == np.roll(pair, 1)).sum())


@measures("correlated-trained-collapsed")
def _crowded(data: xr.Dataset) -> dict[str, Estimate]:
    """The collapse of three pairs, and whether the best networks have that of the optimum."""
    found = _three_pairs(data)
    agree = collapsed(data.crowded_W.values) == collapsed(data.crowded_optimum_W.values)
    found["correlated-trained-collapsed"] = best_estimate(data.crowded_loss.values, agree)
    return found


@measures("correlated-hexagon")
def _hexagon(data: xr.Dataset, p: float = HEXAGON) -> Estimate:
    """The greatest miss of a gap from 60 degrees in the best network of a density."""
    cell = data.sel(crowded_density=p)
    W = cell.crowded_W.transpose("seed", "hidden", "crowded_feature").values
    norm, miss = np.linalg.norm(W, axis=1), [np.abs(gaps(one) - 60).max() for one in W]
    even = norm.min(axis=1) >= EVEN_NORMS * norm.max(axis=1)
    return best_estimate(cell.crowded_loss.values, np.where(even, miss, NO_HEXAGON))


@measures("correlated-collapse-rises", "correlated-collapsed-*")
def _three_pairs(data: xr.Dataset) -> dict[str, Estimate]:
    """Collapsed pairs of all trained networks of three pairs."""
    weights = {p: data.crowded_W.sel(crowded_density=p).values for p in COLLAPSED}
    counts = {p: collapsed(W) for p, W in weights.items()}
    rise = counts[max(COLLAPSED)] - counts[min(COLLAPSED)]
    found = {"correlated-collapse-rises": mean_estimate(rise)}
    for p, count in COLLAPSED.items():
        # What occurs is counted by angles alone; what most have needs directions that mean one.
        as_many = _whole(weights[p], count) if p in MOST else counts[p] == count
        found[f"correlated-collapsed-p{p:g}"] = share_estimate(as_many)
    return found


def _whole(W: np.ndarray, count: int) -> np.ndarray:
    """Whether a network has a number of collapsed pairs and has lost no feature, ``[...]``."""
    return (collapsed(W) == count) & _all_there(W)


def _at_others(data: xr.Dataset, count: int) -> list[Estimate]:
    """The share with a number of collapsed pairs at each density at which another is printed."""
    others = [p for p, printed in COLLAPSED.items() if printed != count]
    W = [data.crowded_W.sel(crowded_density=p).values for p in others]
    return [share_estimate(_whole(one, count)) for one in W]


@measures("correlated-across", "correlated-local-bases")
def _basis(data: xr.Dataset) -> dict[str, Estimate]:
    """Blocks of W^T W inside and between the two sets."""
    W = data.basis_W.values
    gram = np.einsum("sdki,sdkj->sdij", W, W)
    n = data.sizes["basis_feature"] // 2
    inside = np.stack([gram[..., :n, :n], gram[..., n:, n:]], axis=2)
    off = inside[..., ~np.eye(n, dtype=bool)]
    misses = np.linalg.norm(inside - np.eye(n), axis=(-2, -1)) / np.sqrt(n)
    ratio = (off**2).mean(axis=(1, 2, 3)) / (gram[..., :n, n:] ** 2).mean(axis=(1, 2, 3))
    return {
        "correlated-local-bases": mean_estimate(misses.max(axis=2).mean(axis=1)),
        "correlated-across": mean_estimate(ratio),
    }
