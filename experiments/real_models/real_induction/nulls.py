"""Draws of the nulls of the claims on SmolLM2's induction heads: random heads, sets and pairs."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from circuitax.records.elsewhere import best_elsewhere
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Draws
from experiments.real_models.real_induction.pairs import READINGS, heads_of

DRAWS = 500
K = READINGS.index("K")


def of_heads(data: xr.Dataset, n_matching: int) -> dict[str, Draws]:
    """Means over random sets of five heads, and the least of as many as match prefixes.

    The least is chosen for each text on all others.

    Args:
        data: Data of a record.
        n_matching: Heads that match prefixes, at least 1.
    """
    rng = np.random.default_rng(0)
    direct = data.direct.stack(cell=("layer", "head")).transpose("text", "cell").values
    spoilt = data.scores.sel(twin="spoilt").stack(cell=("layer", "head"))
    earlier = (spoilt.sel(kind="earlier") - spoilt.sel(kind="attended")).transpose("text", "cell")
    found: dict[str, list[Estimate]] = {"real-anti-copying": [], "real-keys-earlier": []}
    for _ in range(DRAWS):
        five = rng.choice(direct.shape[1], data.sizes["rank"], replace=False)
        found["real-keys-earlier"].append(mean_estimate(earlier.values[:, five].mean(axis=1)))
        some = rng.choice(direct.shape[1], n_matching, replace=False)
        against = xr.DataArray(-direct[:, some], dims=("text", "cell"))
        least = -best_elsewhere(against, "cell", "text", len(against))
        found["real-anti-copying"].append(mean_estimate(least))
    return dict(found)


def of_pairs(data: xr.Dataset) -> dict[str, Draws]:
    """Composition above random rotations, of random heads in the layers of the real ones."""
    rng = np.random.default_rng(0)
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    n_heads = data.sizes["head"]
    z = data.composition_z.sel(reading="K")
    apart = {
        (later, layer): z.sel(layer=layer, reader_layer=later)
        .transpose("head", "reader_head")
        .values
        for later in {layer for layer, _ in readers}
        for layer in {layer for layer, _ in writers if layer < later}
    }
    found = list[float]()
    for _ in range(DRAWS):
        of_reader, of_writer = (rng.integers(n_heads, size=len(x)) for x in (readers, writers))
        above = [
            apart[later, layer][of_writer[j], of_reader[i]]
            for i, (later, _) in enumerate(readers)
            for j, (layer, _) in enumerate(writers)
            if layer < later
        ]
        found.append(float(np.mean(above)))
    return {"real-k-rotation": found}


def of_other_writers(data: xr.Dataset) -> np.ndarray:
    """The best share of the real readers, over all choices of other writers from the same layers.

    A layer that comes before no reader is left out.
    """
    chosen = itertools.product(*_other_writers(data, lambda ranks: ranks[K]))
    return np.array([np.nanmax(shares, axis=0).mean() for shares in chosen])


def keys_over(data: xr.Dataset, reading: str) -> np.ndarray:
    """Share through keys less that through queries or values, of the same choices of writers."""
    return np.array([np.nanmean(each) for each in _keys_less(data, reading)])


def keys_over_without(data: xr.Dataset, reading: str) -> np.ndarray:
    """That of the same choices with each writer left out in turn, ``[writer, choice]``."""
    rows = np.array([np.stack(each) for each in _keys_less(data, reading)])
    return np.stack(
        [np.nanmean(np.delete(rows, i, axis=1), axis=(1, 2)) for i in range(rows.shape[1])]
    )


def _keys_less(data: xr.Dataset, reading: str) -> Iterator[tuple[np.ndarray, ...]]:
    """Of each choice of other writers, that difference for each reader, by the writer."""
    other = READINGS.index(reading)
    return itertools.product(*_other_writers(data, lambda ranks: ranks[K] - ranks[other]))


def _other_writers(data: xr.Dataset, of: Callable[[np.ndarray], np.ndarray]) -> list[np.ndarray]:
    """A number of each other head of a writer's layer and each real reader, by the writer."""
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    others = []
    for layer, _ in writers:
        values = np.full((len(readers), data.sizes["head"]), np.nan)
        for i, (later, reader) in enumerate(readers):
            if layer < later:
                values[i] = of(_ranks(data, layer, later))[:, reader]
        if not np.isnan(values).all():
            own = [head for at, head in writers if at == layer]
            others.append(np.delete(values, own, axis=1).T)
    return others


def of_same_layers(data: xr.Dataset, effect: xr.DataArray) -> np.ndarray:
    """Mean effect of every choice of as many heads of the induction heads' layers.

    Args:
        data: Data of a record.
        effect: Of each head, ``[layer, head]``.
    """
    layers = Counter(layer for layer, _ in heads_of(data, "induction"))
    sums = [
        [sum(heads) for heads in itertools.combinations(effect.sel(layer=layer).values, count)]
        for layer, count in layers.items()
    ]
    return np.array([sum(chosen) for chosen in itertools.product(*sums)]) / layers.total()


def shares_with_less(values: np.ndarray) -> np.ndarray:
    """Share of the values that are less than each of them."""
    return np.searchsorted(np.sort(values), values) / values.size


def _ranks(data: xr.Dataset, layer: int, later: int) -> np.ndarray:
    """Share of the other pairs of two layers that compose less, ``[reading, writer, reader]``."""
    pairs = data.composition.sel(layer=layer, reader_layer=later, reading=[*READINGS])
    flat = pairs.transpose("reading", "head", "reader_head").values.reshape(len(READINGS), -1)
    order = np.argsort(np.argsort(flat, axis=1), axis=1) / (flat.shape[1] - 1)
    return order.reshape(len(READINGS), data.sizes["head"], -1)


def of_any_head(data: xr.Dataset) -> dict[str, Draws]:
    """The prefix score of each head, and the share of random rotations above two deviations."""
    from scipy import stats

    prefix = data.scores.sel(twin="plain", kind="prefix").stack(cell=("layer", "head"))
    each = prefix.transpose("cell", "text").values
    return {
        "real-matching-head": [mean_estimate(row) for row in each],
        "real-rotation-all": [float(stats.norm.sf(2))],
    }


def of_sets(rise: xr.DataArray, sets: list[str]) -> list[Estimate]:
    """Each random set against the mean of the others: of sets, ``[set]``, or over chapters."""
    found = []
    for name in sets:
        others = rise.sel(set=[other for other in sets if other != name])
        if "chapter" in rise.dims:
            found.append(mean_estimate((rise.sel(set=name) - others.mean("set")).values))
        else:
            found.append(mean_estimate((rise.sel(set=name) - others).values))
    return found


def of_layers(n_matching: int, share: float) -> list[Estimate]:
    """Shares of heads in the first half, each in any layer alike, at even steps of their law."""
    from scipy import stats

    levels = (np.arange(DRAWS) + 0.5) / DRAWS
    return [exact(k / n_matching) for k in stats.binom.ppf(levels, n_matching, share)]


def of_chapters(falls: xr.DataArray) -> dict[str, list[Estimate]]:
    """The fall along the text, with both ends exchanged at random in each chapter."""
    return exchanged({"real-prose-in-context": falls.sel(set="intact")})
