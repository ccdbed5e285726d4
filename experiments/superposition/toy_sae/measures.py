"""Measured values of the claims on dictionary learning, from a record."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.null_draws import shuffled
from circuitax.records.null_samples import DRAWS
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record

N_DRAWS = 40
NARROW = ["narrow independent", "narrow together"]


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data, best = record.data, at_best_strength(record.data)
    cosine = best.cosine
    large = best.sel(target="large")
    strongest = data.isel(strength=-1).sel(target="large").norm_ratio
    merged = _merged(best)
    found = {
        "sae-large-relu": _mean(cosine.sel(target="large", kind="relu")),
        "sae-small-best": _extreme(cosine.sel(target="small"), max),
        "sae-orthogonal": _extreme(cosine.sel(target="independent"), min),
        "sae-shrinkage": _mean(strongest.sel(kind="relu")),
        "sae-jump-shrinks-less": _mean(strongest.sel(kind="jumprelu") - strongest.sel(kind="relu")),
        "sae-jump-regret": _mean(large.error.sel(kind="relu") / large.error.sel(kind="jumprelu")),
        "sae-hedging": _mean(merged.sel(kind="relu")),
        "sae-hedging-all": _extreme(merged, min),
        "sae-no-hedging": _mean(best.hedging.sel(target="independent", kind="relu")),
        "sae-anticorrelated": _extreme(cosine.sel(target="exclusive"), max),
    }
    return Measured(found, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random dictionaries, exchanged laws, codes that do not shrink."""
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    narrow = at_best_strength(record.data).sel(target=NARROW)
    exchanged = [shuffled(narrow, ["hedging"], "target", rng, ["kind", "seed"]) for rng in rngs]
    seeds, methods = record.data.sizes["seed"], record.data.sizes["kind"]
    best = at_best_strength(record.data)
    strongest = record.data.isel(strength=-1).sel(target="large").norm_ratio
    error = np.log(best.error.sel(target="large"))
    wider = best.hedging.sel(target=NARROW[1], kind="relu")
    return {
        "random": {
            "sae-large-relu": [_random_cosine(rng, seeds) for rng in rngs],
            "sae-small-best": _random_extremes(seeds, methods, 5, 2, max),
            "sae-anticorrelated": _random_extremes(seeds, methods, 10, 10, max),
            "sae-orthogonal": _random_extremes(seeds, methods, 10, 10, min),
        },
        "permuted": {
            "sae-hedging": [_mean(_merged(one).sel(kind="relu")) for one in exchanged],
            "sae-hedging-all": [_extreme(_merged(one), min) for one in exchanged],
            "sae-jump-shrinks-less": _exchanged(strongest),
            "sae-jump-regret": _exchanged(-error, np.exp),
        },
        "false world": {"sae-shrinkage": [1.0], "sae-no-hedging": [_mean(wider)]},
    }


def at_best_strength(data: xr.Dataset) -> xr.Dataset:
    """Every method, target and seed at the strength with the highest mean cosine of other seeds.

    Seeds of even number take the best strength of the odd ones, and the other way round, so that
    no seed is judged at a strength that was chosen on itself.
    """
    seeds = data.sizes["seed"]
    others = (1, 0) if seeds > 1 else (0, 0)  # one seed alone has no other
    halves = [data.cosine.isel(seed=slice(first, None, 2)).mean("seed") for first in others]
    best = xr.concat([half.argmax("strength") for half in halves], "half")
    half = xr.DataArray(np.arange(seeds) % 2, dims="seed")
    return data.isel(strength=best.isel(half=half))


def _merged(best: xr.Dataset) -> xr.DataArray:
    """Hedging on features that occur together less that on independent ones."""
    return best.hedging.sel(target=NARROW[1]) - best.hedging.sel(target=NARROW[0])


def _exchanged(
    by_method: xr.DataArray, of: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> list[Estimate]:
    """JumpReLU less ReLU, with both exchanged at random in each seed."""
    gap = (by_method.sel(kind="jumprelu") - by_method.sel(kind="relu")).values
    gap = gap[np.isfinite(gap)]
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, gap.size))
    return [mean_estimate(of(row * gap)) for row in signs]


def _random_extremes(
    seeds: int, methods: int, n: int, dim: int, choose: Callable[..., Estimate]
) -> list[Estimate]:
    """Of as many random dictionaries as methods, the one whose mean is greatest, or least."""
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    drawn = ([_random_cosine(rng, seeds, n, dim) for _ in range(methods)] for rng in rngs)
    return [choose(means, key=lambda estimate: estimate.value) for means in drawn]


def _random_cosine(rng: np.random.Generator, seeds: int, n: int = 40, dim: int = 10) -> Estimate:
    """Mean max cosine of ``n`` random directions with ``n`` others, over seeds."""
    rows = rng.standard_normal((2, seeds, n, dim))
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    cosine = unit[0] @ np.swapaxes(unit[1], -1, -2)
    return mean_estimate(cosine.max(axis=-1).mean(axis=-1))


def _mean(samples: xr.DataArray) -> Estimate:
    values = samples.values
    return mean_estimate(values[np.isfinite(values)])


def _extreme(by_method: xr.DataArray, choose: Callable[..., Estimate]) -> Estimate:
    """The mean over seeds of the method whose mean is greatest, or least."""
    means = [_mean(by_method.sel(kind=name)) for name in by_method.kind.values]
    return choose(means, key=lambda estimate: estimate.value)
