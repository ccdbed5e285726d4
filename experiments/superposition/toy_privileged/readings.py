"""Neurons under a privileged basis: what is read from the record, and its figures; no JAX."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from circuitax.figures.palette import DIVERGING
from circuitax.figures.style import new_figure
from circuitax.records.estimate import Estimate, best_estimate
from circuitax.records.sample import Sample, best_of, exactly, sample
from experiments.superposition.shared.cell_readings import place_of
from experiments.superposition.shared.random_weights import normal_weights

# Density: monosemantic neurons, and features represented, of the best solution, as published.
MONOSEMANTIC = {0.75: 5, 0.35: 3, 0.15: 2, 0.12: 1, 0.06: 0, 0.03: 0}
REPRESENTED = {0.75: 5, 0.35: 6, 0.15: 7, 0.12: 7, 0.06: 8, 0.03: 10}
NEURONS = 5
# Other inputs rank restarts otherwise whose losses differ by no more.
RANKED_ALIKE = 0.05
# Least norm and purity by which the record's neurons are classified, and least norm of features.
LEAST_NORM, LEAST_PURITY, LEAST_REPRESENTED = 0.1, 0.9, 0.5
# Three features as a binary code: which of their weights in two neurons are positive.
CODE = {(True, True), (True, False), (False, True)}
# Of the greatest weight of a feature: what others of its code or pair have at least, and what
# those of other neurons stay below.
LEAST_OTHER, MOST_THIRD = 0.5, 0.25
# A feature that is on alone, at 1, comes back when its own output rises by more.
LEAST_RISE = 0.5


def at_start(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """One network at its start in the place of all of each density."""
    W = normal_weights(rng, data.attrs["init_std"], *data.best_W.shape)
    found = counts(W)
    like = {
        name: xr.zeros_like(data[name], float) + xr.DataArray(found[name], dims="density")
        for name in ("monosemantic", "polysemantic", "represented")
    }
    best = {"best_W": data.best_W.copy(data=W), "best_b": xr.zeros_like(data.best_b)}
    return data.assign(like | best)


WORLDS = {"untrained": at_start}


def monosemantic(data: xr.Dataset, p: float) -> Sample:
    """Monosemantic neurons of the restart with the lowest loss, in it with positive weights."""
    cell = _cell(data, p)
    own = counts(cell.best_W.values)["positive"]
    return best_of(cell.loss.values, np.where(_is_best(cell), own, cell.monosemantic.values))


def as_printed(data: xr.Dataset, p: float) -> Sample:
    """1 where the restart with the lowest loss has the printed counts, and all of it works."""
    cell = _cell(data, p)
    of_all = (
        (cell.represented == REPRESENTED[p])
        & (cell.monosemantic == MONOSEMANTIC[p])
        & (cell.polysemantic == NEURONS - MONOSEMANTIC[p])
    ).values.astype(float)
    W = cell.best_W.values
    found = counts(W)
    works = all_come_back(W, cell.best_b.values)
    works &= bool(found["positive"] == found["monosemantic"])
    return best_of(cell.loss.values, np.where(_is_best(cell), works * of_all, of_all))


def code(data: xr.Dataset) -> Sample:
    """1 where three features of the best restart are a binary code on two neurons."""
    return exactly(is_code(shared_weights(_cell(data, 0.35))))


def pairs(data: xr.Dataset) -> Sample:
    """Different pairs of the best restart, beside features with two neurons of other restarts.

    The record has no weights of the others; those count that other inputs may rank first.
    """
    cell = _cell(data, 0.03)
    best = best_estimate(cell.loss.values, cell.paired.values)
    own = different_pairs(cell.best_W.values)
    alike = cell.paired.values[cell.loss.values <= (1 + RANKED_ALIKE) * cell.loss.min().item()]
    method = f"{best.method}, and the restarts up to {RANKED_ALIKE:.0%} behind the best"
    ends = np.append(alike, (best.low, best.high, own))
    return sample(Estimate(own, float(ends.min()), float(ends.max()), best.n, method))


def counts(W: np.ndarray) -> dict[str, np.ndarray]:
    """The record's counts of networks ``[..., neuron, feature]``, ``[...]``.

    Beside them are its monosemantic neurons of a positive main weight, which alone are ever on.
    """
    squares = W**2
    total = squares.sum(axis=-1)
    live, pure = total >= LEAST_NORM**2, squares.max(axis=-1) >= LEAST_PURITY * total
    positive = W.max(axis=-1) >= -W.min(axis=-1)
    return {
        "monosemantic": (live & pure).sum(axis=-1, dtype=float),
        "positive": (live & pure & positive).sum(axis=-1, dtype=float),
        "polysemantic": (live & ~pure).sum(axis=-1, dtype=float),
        "represented": (np.linalg.norm(W, axis=-2) > LEAST_REPRESENTED).sum(axis=-1, dtype=float),
    }


def all_come_back(W: np.ndarray, b: np.ndarray) -> bool:
    """Whether every represented feature, on alone at 1, comes back as itself.

    Its own output rises above that of no input by `LEAST_RISE`, and by more than any other does.
    """
    rise = np.maximum(W.T @ np.maximum(W, 0) + b[:, None], 0) - np.maximum(b, 0)[:, None]
    own = rise.diagonal()
    others = np.where(np.eye(len(b), dtype=bool), -np.inf, rise).max(axis=0)
    lost = (own <= LEAST_RISE) | (own <= others)
    return not (lost & (np.linalg.norm(W, axis=0) > LEAST_REPRESENTED)).any()


def shared_weights(cell: xr.Dataset) -> np.ndarray:
    """Weights of the best network's represented features that are alone in no neuron.

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
    found = np.sort(order[:2, both.all(axis=0) & others.all(axis=0)], axis=0)
    return len({*map(tuple, found.T.tolist())}) / W.shape[1]


def _is_best(cell: xr.Dataset) -> np.ndarray:
    """Which restart has the lowest loss: that whose weights are on record."""
    loss = np.nan_to_num(cell.loss.values, nan=np.inf)
    best: np.ndarray = np.arange(loss.size) == loss.argmin()
    return best


def _cell(data: xr.Dataset, p: float) -> xr.Dataset:
    """The part of one density."""
    return data.isel(density=place_of(p, data.density))


def weights(data: xr.Dataset) -> Figure:
    """``W`` of the best restart, neurons in rows, monosemantic ones first."""
    n = data.sizes["density"]
    columns = min(3, n)
    rows = -(-n // columns)
    figure, axes = new_figure(rows, columns, height=0.5 + 1.35 * rows)
    for ax in axes.flat[n:]:
        ax.set_axis_off()
    for i, ax in zip(range(n), axes.flat, strict=False):
        cell = data.isel(density=i)
        W = cell.best_W.values[neuron_order(cell)]
        image = ax.imshow(W, cmap=DIVERGING, vmin=-1.2, vmax=1.2, aspect="auto", rasterized=True)
        alone, shared = int(cell.best_monosemantic.sum()), int(cell.best_polysemantic.sum())
        kept = int(cell.best_represented.sum())
        p = float(cell.density)
        title = f"$p$ = {p:g}: {alone} mono, {shared} poly, {kept} features"
        ax.set_title(title, fontsize=7)
        ax.set_xticks(range(0, data.sizes["feature"], 2))
        ax.set_yticks(range(len(W)), [str(k + 1) for k in range(len(W))])
    for ax in axes[-1]:
        ax.set_xlabel("feature, most important first")
    for ax in axes[:, 0]:
        ax.set_ylabel("neuron")
    figure.colorbar(image, ax=axes, label="$W$", shrink=0.8)
    figure.suptitle(f"best of {data.sizes['restart']} restarts", fontsize=8)
    return figure


def neuron_order(cell: xr.Dataset) -> np.ndarray:
    """Monosemantic neurons first, by their feature; the others by their strongest feature."""
    strongest = np.abs(cell.best_W.values).argmax(axis=1)
    return np.lexsort((strongest, ~cell.best_monosemantic.values))
