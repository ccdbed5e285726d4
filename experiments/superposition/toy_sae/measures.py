"""Measured values of the claims on dictionary learning, from a record."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data, best = record.data, at_best_strength(record.data)
    cosine = best.cosine
    large = best.sel(target="large")
    strongest = data.isel(strength=-1).sel(target="large").norm_ratio
    merged = best.hedging.sel(target="narrow together") - best.hedging.sel(
        target="narrow independent"
    )
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


def at_best_strength(data: xr.Dataset) -> xr.Dataset:
    """Every method and target at the strength with the highest mean cosine over seeds."""
    best = data.cosine.mean("seed").argmax("strength")
    return data.isel(strength=best)


def _mean(samples: xr.DataArray) -> Estimate:
    values = samples.values
    return mean_estimate(values[np.isfinite(values)])


def _extreme(by_method: xr.DataArray, choose: Callable[..., Estimate]) -> Estimate:
    """The mean over seeds of the method whose mean is greatest, or least."""
    means = [_mean(by_method.sel(kind=name)) for name in by_method.kind.values]
    return choose(means, key=lambda estimate: estimate.value)
