"""The measured price of an induction head: tokens to onset, their law, and its reading."""

from collections.abc import Callable
from functools import cache, partial

import numpy as np
import xarray as xr
from scipy.stats import linregress

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_samples import DRAWS
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from circuitax.records.shared_exam import over_seeds_only
from experiments.induction.induction_price.claims import CLAIMS
from experiments.induction.induction_price.onset_law import OnsetLaw, first_crossing, fitted_onsets

RESAMPLES = 200


def measure(record: Record) -> Measured:
    """Shares of seeds with a head at both ends, the law, and its extrapolation to plain text."""
    data = seeds_alive(record.data)
    if data.sizes["seed"] < 2:
        why = f"only {data.sizes['seed']} seeds stayed finite at every share"
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    times = onsets(data)
    measured = {
        "price-all-repeat": share_estimate(np.isfinite(times.isel(share=0))),
        "price-plain-none": share_estimate(np.isfinite(times.isel(share=-1))),
        **{f"rate-{name}": exact(rate) for name, rate in own_shares(data).items()},
        **{
            f"formed-{k:g}": share_estimate(np.isfinite(times.sel(share=k)))
            for k in times.share.values
        },
    }
    try:
        law(data, times)
    except ValueError as error:
        return Measured(measured, unmet_rest(CLAIMS, measured, str(error)))
    found = measured | _law(data, times)
    return Measured(
        over_seeds_only(found, [name for name in found if name.startswith("price-")]), {}
    )


def nulls(record: Record) -> Nulls:
    """Trainings shuffled among the shares of windows that repeat, and a price that is one."""
    data = seeds_alive(record.data)
    if data.sizes["seed"] < 2:
        return {}
    formed, rng = np.isfinite(onsets(data).values), np.random.default_rng(0)
    some = [rng.permutation(formed.ravel())[: len(formed)] for _ in range(DRAWS)]
    drawn = [share_estimate(row) for row in some]
    found: dict[str, Draws] = {"price-all-repeat": drawn, "price-plain-none": drawn}
    price = measure(record).estimates.get("price-all")
    return {"permuted": found, "false world": {"price-plain-text": [price]}}


@measures("price-exponent", "price-plain-text")
def _law(data: xr.Dataset, times: xr.DataArray) -> dict[str, Estimate]:
    """The exponent, the price at a share of 1, and that of plain text by each length of stretch.

    ``exponent-formed`` is that of the trainings that formed a head alone: where seeds are of two
    kinds, some of which never form one, it is theirs, and ``price-exponent`` mixes both.
    """
    whole, found = law(data, times), {}

    @cache
    def of(seeds: tuple[int, ...]) -> OnsetLaw:
        try:
            return law(data, times.isel(seed=list(seeds)))
        except ValueError:  # too few onsets among the seeds drawn
            return whole

    def over_seeds(reading: Callable[[OnsetLaw], float]) -> Estimate:
        # All readings draw the same seeds, and a law is fitted once for each draw.
        return resampled_estimate(
            lambda seeds: reading(of(tuple(sorted(seeds.tolist())))),
            data.sizes["seed"],
            n_resamples=RESAMPLES,
        )

    found["price-exponent"] = over_seeds(lambda one: one.exponent)
    formed = partial(_exponent_formed, times)
    found["exponent-formed"] = resampled_estimate(formed, data.sizes["seed"], n_resamples=RESAMPLES)
    found["price-all"] = over_seeds(lambda one: one.price / 1e6)
    for length, share in own_shares(data).items():
        if share > 0:
            at = partial(_millions, share=share)
            found[f"price-plain-{length}"] = over_seeds(at)
    primary = f"price-plain-{int(data.min_period)}"
    return found | ({"price-plain-text": found[primary]} if primary in found else {})


def _exponent_formed(times: xr.DataArray, seeds: np.ndarray) -> float:
    """Minus the slope of log tokens to onset against log share; NaN at a single share."""
    drawn = times.isel(seed=seeds, share=times.share.values > 0)
    shares, tokens = np.broadcast_to(drawn.share.values, drawn.shape), drawn.values
    seen = np.isfinite(tokens)
    if len(np.unique(shares[seen])) < 2:
        return np.nan
    return -float(linregress(np.log(shares[seen]), np.log(tokens[seen])).slope)


def _millions(one: OnsetLaw, share: float) -> float:
    return float(one.at(share)) / 1e6


def seeds_alive(data: xr.Dataset) -> xr.Dataset:
    """The seeds that stayed finite at every share, so that shares are compared on the same."""
    return members_where(data, data.alive.all("share"))


def onsets(data: xr.Dataset) -> xr.DataArray:
    """Tokens at which each training first reaches the threshold; NaN where it never does."""
    curve = data.prefix.transpose("seed", "share", "step")
    found = first_crossing(data.tokens, curve, float(data.threshold))
    return xr.DataArray(found, dims=("seed", "share"), coords={"share": data.share})


def law(data: xr.Dataset, times: xr.DataArray) -> OnsetLaw:
    """The law of all trials at shares above 0.

    Raises:
        ValueError: If too few of them had an onset.
    """
    diluted = times.sel(share=times.share[times.share > 0])
    shares = np.broadcast_to(diluted.share.values, diluted.shape)
    return fitted_onsets(shares, diluted.values, float(data.tokens[-1]))


def own_shares(data: xr.Dataset) -> dict[int, float]:
    """The share of repeating windows that would have plain text's rate of repeats, by length."""
    rates = data.repeat_rate
    return {
        int(length): float(rates.sel(windows="plain", length=length))
        / float(rates.sel(windows="repeated", length=length))
        for length in data.length.values
        if float(rates.sel(windows="repeated", length=length)) > 0
    }
