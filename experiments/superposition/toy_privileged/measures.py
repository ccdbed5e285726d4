"""Measured values of the claims on the privileged basis, from a record."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import beside
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import best_estimate
from circuitax.records.shared_exam import over_seeds_only
from experiments.superposition.shared.random_weights import normal_weights, same_norms
from experiments.superposition.toy_privileged.claims import (
    CLAIMS,
    MIXED,
    MONOSEMANTIC,
    REPRESENTED,
    SHARED,
)

# A restart has found the best solution when its loss is at most 1 % above it.
TOLERANCE = 0.01
# Other inputs rank restarts otherwise whose losses differ by no more (docs/checks.md).
RANKED_ALIKE = 0.05
# Thresholds by which the record's neurons are classified: least norm, purity, and share of the
# greatest weight.
LEAST_NORM, LEAST_PURITY, LEAST_SHARE = 0.1, 0.9, 0.25
# Three features as a binary code: which of their weights in two neurons are positive.
CODE = {(True, True), (True, False), (False, True)}
# Of the greatest weight of a feature: what others of its code or pair have at least, and what
# those of other neurons stay below.
LEAST_OTHER, MOST_THIRD = 0.5, 0.25
# A feature that is on alone, at 1, comes back when its own output rises by more.
LEAST_RISE = 0.5
N_STARTS, N_DRAWS, N_CODES = 1000, 40, 1000


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle."""
    data, least = record.data, record.notes["represented"]
    found: dict[str, Estimate] = {}
    for p, cell in _named(data, MONOSEMANTIC):
        found[f"privileged-mono-p{p:g}"] = _pure_of_best(cell, least)
    for p, cell in _named(data, REPRESENTED):
        found[f"privileged-features-p{p:g}"] = _printed_best(p, cell, least)
    for _, cell in _named(data, (0.35,)):
        found["privileged-code"] = exact(is_code(shared_weights(cell)))
    for _, cell in _named(data, (0.03,)):
        found["privileged-pairs"] = _of_pairs(cell)
    sparse = data.isel(density=data.density.values <= 0.15)
    if sparse.sizes["density"]:
        found["privileged-best-is-rare"] = _rare(sparse)
    found = over_seeds_only(
        found,
        ("privileged-mono-p0.03", "privileged-features-p0.03"),
        units="restarts",
        exam="the inputs that rank them are",
    )
    return Measured(found, {}, unmet_rest(CLAIMS, found, "this run has other densities"))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: other densities, networks at their start, random codes and losses."""
    data, least = record.data, record.notes["represented"]
    rng = np.random.default_rng(0)
    shape = (N_STARTS, data.sizes["neuron"], data.sizes["feature"])
    start = counts(normal_weights(rng, record.notes["init_std"], *shape), least)
    untrained: dict[str, Draws] = {
        **{f"privileged-mono-p{p:g}": start["positive"] for p in MONOSEMANTIC},
        **{f"privileged-features-p{p:g}": _counts_as_printed(p, start) for p in REPRESENTED},
    }
    random: dict[str, Draws] = {}
    sparse = data.isel(density=data.density.values <= 0.15)
    if sparse.sizes["density"]:
        mean, std = sparse.loss.mean("restart"), sparse.loss.std("restart")
        drawn = [
            sparse.loss.copy(data=rng.standard_normal(sparse.loss.shape)) for _ in range(N_DRAWS)
        ]
        rare = [_rare(sparse.assign(loss=mean + std * one)) for one in drawn]
        random["privileged-best-is-rare"] = rare
    for _, cell in _named(data, (0.35,)):
        W = shared_weights(cell)
        directions = [is_code(same_norms(rng, W)) for _ in range(N_CODES)]
        signs = rng.choice([-1, 1], (N_CODES, *W.shape))
        random["privileged-code"] = [*directions, *(is_code(one) for one in np.abs(W) * signs)]
    return {"untrained": untrained, "mismatched": _of_others(data, least, rng), "random": random}


def _of_others(data: xr.Dataset, least: float, rng: np.random.Generator) -> dict[str, Draws]:
    """The best solutions of all other densities in the place of one, or its own drawn anew."""
    found: dict[str, Draws] = {}
    for p in MONOSEMANTIC:
        others = [cell for _, cell in _named(data, MONOSEMANTIC.keys() - {p})]
        own = [cell for _, cell in _named(data, (p,) if p in MIXED else ())]
        found[f"privileged-mono-p{p:g}"] = [_pure_of_best(cell, least) for cell in others]
        elsewhere = [_printed_best(p, cell, least) for cell in others]
        anew = [x for cell in own for x in as_printed(p, *shared_anew(cell, rng), least)]
        found[f"privileged-features-p{p:g}"] = beside(map(exact, anew), elsewhere) or elsewhere
        if p == 0.03:
            found["privileged-pairs"] = [different_pairs(cell.best_W.values) for cell in others]
    return {name: draws or [None] for name, draws in found.items()}


def shared_anew(cell: xr.Dataset, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the best network with what it shares drawn anew, and its biases.

    In its neurons of several features, features get random directions of their lengths in half of
    the draws, and random signs in the others.
    """
    shared = cell.best_polysemantic.values
    W = np.tile(cell.best_W.values, (2 * N_DRAWS, 1, 1))
    W[:N_DRAWS, shared] = same_norms(rng, W[:N_DRAWS, shared])
    W[N_DRAWS:, shared] *= rng.choice([-1, 1], W[N_DRAWS:, shared].shape)
    return W, cell.best_b.values


def counts(W: np.ndarray, represented: float) -> dict[str, np.ndarray]:
    """The record's counts of a trained network, of any weights, ``[network]``.

    Beside them are its monosemantic neurons of a positive main weight, which alone are ever on.

    Args:
        W: ``[network, neuron, feature]``.
        represented: Norm above which a feature counts.
    """
    squares = W**2
    total = squares.sum(axis=-1)
    live, pure = total >= LEAST_NORM**2, squares.max(axis=-1) >= LEAST_PURITY * total
    positive = W.max(axis=-1) >= -W.min(axis=-1)
    on = (LEAST_SHARE * np.abs(W).max(axis=(-1, -2), keepdims=True) <= W).sum(axis=-2)
    return {
        "monosemantic": (live & pure).sum(axis=-1, dtype=float),
        "positive": (live & pure & positive).sum(axis=-1, dtype=float),
        "polysemantic": (live & ~pure).sum(axis=-1, dtype=float),
        "represented": (np.linalg.norm(W, axis=-2) > represented).sum(axis=-1, dtype=float),
        "paired": (on == 2).mean(axis=-1),
    }


def all_come_back(W: np.ndarray, b: np.ndarray, represented: float) -> np.ndarray:
    """Whether every represented feature, on alone at 1, comes back as itself, ``[network]``.

    Its own output rises above that of no input by `LEAST_RISE`, and by more than any other does.
    """
    rise = np.maximum(W.swapaxes(-1, -2) @ np.maximum(W, 0) + b[:, None], 0)
    rise -= np.maximum(b, 0)[:, None]
    own = np.einsum("...ii->...i", rise)
    others = np.where(np.eye(len(b), dtype=bool), -np.inf, rise).max(axis=-2)
    lost = (own <= LEAST_RISE) | (own <= others)
    kept: np.ndarray = ~(lost & (np.linalg.norm(W, axis=-2) > represented)).any(axis=-1)
    return kept


def as_printed(p: float, W: np.ndarray, b: np.ndarray, represented: float) -> np.ndarray:
    """1 where a network has the printed counts, and all that they count works, else 0."""
    found = counts(W, represented)
    works = all_come_back(W, b, represented) & (found["positive"] == found["monosemantic"])
    return _counts_as_printed(p, found) * works


def shared_weights(cell: xr.Dataset) -> np.ndarray:
    """Weights of the best network's represented features that are alone in no neuron.

    Returns:
        ``[neuron, feature]``, of its neurons of several features.
    """
    W = cell.best_W.values
    alone = np.abs(W[cell.best_monosemantic.values]).argmax(axis=1)
    left = cell.best_represented.values & ~np.isin(np.arange(W.shape[1]), alone)
    return W[np.ix_(cell.best_polysemantic.values, left)]


def is_code(W: np.ndarray) -> float:
    """1 where weights ``[neuron, feature]`` are three features as a code on two neurons, else 0.

    Features are in order of importance, and the first is positive in both neurons.
    """
    if W.shape != (2, 3):
        return 0.0
    size = np.abs(W)
    large = (size.min(axis=0) >= LEAST_OTHER * size.max(axis=0)).all()
    signs = [(first > 0, second > 0) for first, second in W.T.tolist()]
    return float(large and signs[0] == (True, True) and {*signs} == CODE)


def different_pairs(W: np.ndarray) -> float:
    """Different pairs of neurons that features ``[neuron, feature]`` are, over features."""
    order = np.argsort(-W, axis=0)
    ranked = np.take_along_axis(W, order, axis=0)
    both, others = ranked[:2] >= LEAST_OTHER * ranked[0], ranked[2:] < MOST_THIRD * ranked[0]
    pairs = np.sort(order[:2, both.all(axis=0) & others.all(axis=0)], axis=0)
    return len({*map(tuple, pairs.T.tolist())}) / W.shape[1]


def reached(data: xr.Dataset) -> xr.DataArray:
    """Whether a restart has found the best solution of its cell; not if it diverged."""
    return data.loss <= (1 + TOLERANCE) * data.loss.min("restart")


@measures("privileged-best-is-rare")
def _rare(sparse: xr.Dataset) -> Estimate:
    """Share of restarts that reached the best; cells of one share data, and are averaged."""
    return mean_estimate(reached(sparse).mean("density").values)


def _counts_as_printed(p: float, found: Mapping[Any, Any]) -> np.ndarray:
    """1 where a network has the counts that are printed for the density, else 0."""
    printed = {"represented": REPRESENTED, "monosemantic": MONOSEMANTIC, "polysemantic": SHARED}
    same = [np.asarray(found[name]) == count[p] for name, count in printed.items()]
    return np.all(same, axis=0).astype(float)


def _printed_best(p: float, cell: xr.Dataset, least: float) -> Estimate:
    """The same of the restart with the lowest loss, all of whose counts have to work too."""
    of_all = _counts_as_printed(p, cell)
    (own,) = as_printed(p, cell.best_W.values[None], cell.best_b.values, least)
    return best_estimate(cell.loss.values, np.where(_is_best(cell), own * of_all, of_all))


def _pure_of_best(cell: xr.Dataset, least: float) -> Estimate:
    """Monosemantic neurons of the restart with the lowest loss, in it with positive weights."""
    own = counts(cell.best_W.values, least)["positive"]
    of_all = np.where(_is_best(cell), own, cell.monosemantic.values)
    return best_estimate(cell.loss.values, of_all)


def _is_best(cell: xr.Dataset) -> np.ndarray:
    """Which restart has the lowest loss: that whose weights are on record."""
    loss = np.nan_to_num(cell.loss.values, nan=np.inf)
    best: np.ndarray = np.arange(loss.size) == loss.argmin()
    return best


@measures("privileged-pairs")
def _of_pairs(cell: xr.Dataset) -> Estimate:
    """Different pairs of the best restart, beside features with two neurons of other restarts.

    The record has no weights of the others; those count that other inputs may rank first.
    """
    best = best_estimate(cell.loss.values, cell.paired.values)
    own = different_pairs(cell.best_W.values)
    alike = cell.paired.values[cell.loss.values <= (1 + RANKED_ALIKE) * cell.loss.min().item()]
    method = f"{best.method}, and the restarts up to {RANKED_ALIKE:.0%} behind the best"
    ends = np.append(alike, (best.low, best.high, own))
    return Estimate(own, float(ends.min()), float(ends.max()), best.n, method)


def _named(data: xr.Dataset, densities: Iterable[float]) -> Iterator[tuple[float, xr.Dataset]]:
    """The cells of the given densities that this run has."""
    for p in densities:
        for i in np.flatnonzero(np.isclose(data.density.values, p)):
            yield float(p), data.isel(density=int(i))
