"""Measured values of the claims on dictionary learning, from a record."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr

from circuitax.records.elsewhere import best_elsewhere, chosen_elsewhere
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.null_samples import DRAWS
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record

N_DRAWS = 40
FINDS = 0.99  # mean max cosine of a seed that finds every direction
# Features that are independent, and that occur together, of a narrow and of a wide dictionary.
WIDTHS = (("narrow independent", "narrow together"), ("independent", "together"))


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data, best = record.data, at_best_strength(record.data)
    cosine = best.cosine
    large = best.sel(target="large")
    shrunk = data.isel(strength=-1).norm_ratio.sel(target="large")
    merged = _merged(best)
    found = {
        "sae-large-relu": _mean(cosine.sel(target="large", kind="relu")),
        "sae-small-best": _mean(_best_method(data.cosine.sel(target="small"))),
        "sae-orthogonal": _least(cosine.sel(target="independent")),
        "sae-jump-shrinks-less": _mean(shrunk.sel(kind="jumprelu") - shrunk.sel(kind="relu")),
        "sae-jump-regret": _mean(large.error.sel(kind="relu") / large.error.sel(kind="jumprelu")),
        "sae-hedging": _mean(merged.sel(kind="relu")),
        "sae-hedging-all": _least(merged),
        "sae-no-hedging": _mean(best.hedging.sel(target="independent", kind="relu")),
        "sae-anticorrelated": _mean(_best_method(data.cosine.sel(target="exclusive"))),
    }
    # The norm ratio of a seed that merged or lost directions falls without any penalty.
    kept = _of_finders(data.isel(strength=-1).sel(target="small", kind="relu"))
    if not np.isfinite(kept).any():
        return Measured(found, {"sae-shrinkage": "no autoencoder found the dictionary"})
    return Measured(found | {"sae-shrinkage": _mean(kept)}, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random dictionaries, exchanged widths and methods, what others do."""
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    every = {name: record.data.sizes[name] for name in ("kind", "strength", "seed")}
    of_seeds, of_methods = {"seed": every["seed"]}, {n: every[n] for n in ("kind", "seed")}
    best = at_best_strength(record.data)
    merged, strongest = _merged(best), record.data.isel(strength=-1).norm_ratio
    # An error of 0 has no ratio; a run of few steps has some.
    large = best.error.sel(target="large")
    error = np.log(large.where(large > 0))
    wider = best.hedging.sel(target="narrow together", kind="relu")
    turned = [_turned(merged, rng) for rng in rngs]
    # Two codes and more of TopK span the two dimensions, whatever the dictionary: its least k, 1.
    others = (
        _of_finders(record.data.isel(strength=strength).sel(target="small", kind=kind))
        for kind, strength in (("topk", 0), ("jumprelu", -1))
    )
    without = [_mean(kept) if np.isfinite(kept).any() else None for kept in others]
    chance = [_mean(_random_cosines(rng, of_seeds, 40, 10)) for rng in rngs]
    jump = _mean(best.cosine.sel(target="large", kind="jumprelu"))
    return {
        "random": {
            "sae-small-best": [
                _mean(_best_method(_random_cosines(rng, every, 5, 2))) for rng in rngs
            ],
            "sae-anticorrelated": [
                _mean(_best_method(_random_cosines(rng, every, 10, 10))) for rng in rngs
            ],
            "sae-orthogonal": [_least(_random_cosines(rng, of_methods, 10, 10)) for rng in rngs],
        },
        "permuted": {
            "sae-hedging": [_mean(one.sel(kind="relu")) for one in turned],
            "sae-hedging-all": [_least(one) for one in turned],
            "sae-jump-shrinks-less": _exchanged(strongest.sel(target="large")),
            "sae-jump-regret": _exchanged(-error, np.exp),
        },
        "mismatched": {
            "sae-shrinkage": without,
            "sae-large-relu": [jump, max(chance, key=lambda estimate: estimate.value)],
        },
        "false world": {"sae-no-hedging": [_mean(wider)]},
    }


def at_best_strength(data: xr.Dataset) -> xr.Dataset:
    """Every method, target and seed at the strength with the highest mean cosine of other seeds."""
    return data.isel(strength=chosen_elsewhere(data.cosine, "strength"))


def _best_method(cosine: xr.DataArray) -> xr.DataArray:
    """Cosine of each seed by the method and strength with the highest mean of other seeds."""
    return best_elsewhere(cosine.stack(cell=("kind", "strength")), "cell")


def _of_finders(cells: xr.Dataset) -> xr.DataArray:
    """Norm ratio of the seeds that find every direction; not a number of the others."""
    return cells.norm_ratio.where(cells.cosine >= FINDS)


def _merged(best: xr.Dataset) -> xr.DataArray:
    """Hedging that a lack of width adds, on features that occur together.

    Of a dictionary narrower than the truth, on features that occur together less that on
    independent ones; less the same of one as wide.
    """
    narrow, wide = (best.hedging.sel(target=b) - best.hedging.sel(target=a) for a, b in WIDTHS)
    return narrow - wide


def _turned(gap: xr.DataArray, rng: np.random.Generator) -> xr.DataArray:
    """A difference whose sides are exchanged at random in each seed."""
    return gap * xr.DataArray(rng.choice([-1.0, 1.0], gap.sizes["seed"]), dims="seed")


def _exchanged(
    by_method: xr.DataArray, of: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> Draws:
    """JumpReLU less ReLU, with both exchanged at random in each seed."""
    gap = (by_method.sel(kind="jumprelu") - by_method.sel(kind="relu")).values
    gap = gap[np.isfinite(gap)]
    if not gap.size:
        return [None]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, gap.size))
    return [mean_estimate(of(row * gap)) for row in signs]


def _random_cosines(
    rng: np.random.Generator, sizes: Mapping[str, int], n: int, dim: int
) -> xr.DataArray:
    """Mean max cosine of ``n`` random directions with ``n`` others, of the given axes."""
    rows = rng.standard_normal((2, *sizes.values(), n, dim))
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    cosine = unit[0] @ np.swapaxes(unit[1], -1, -2)
    return xr.DataArray(cosine.max(axis=-1).mean(axis=-1), dims=tuple(sizes))


def _mean(samples: xr.DataArray) -> Estimate:
    values = samples.values
    return mean_estimate(values[np.isfinite(values)])


def _least(by_method: xr.DataArray) -> Estimate:
    """The mean over seeds of the method whose mean is least."""
    means = [_mean(by_method.isel(kind=i)) for i in range(by_method.sizes["kind"])]
    return min(means, key=lambda estimate: estimate.value)
