"""Measured values of the claims on nearly orthogonal directions, from a record."""

import numpy as np
import xarray as xr

from circuitax.projection.crosstalk import sphere_success
from circuitax.records.estimate import Estimate, exact, mean_estimate, mean_of_finite
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import resampled_estimate
from circuitax.records.slope import slope_estimate

N_DRAWS = 200


def measure(record: Record) -> Measured:
    """The measured value of every claim, and the growth rate of optimised packings."""
    data = record.data
    return Measured({**_sizes(data), **_learned(data), **_decoding(data)}, {})


def nulls(record: Record) -> Nulls:
    """Packings shuffled, random directions for trained ones, and another law of crosstalk."""
    data = record.data
    rngs = (np.random.default_rng(i) for i in range(N_DRAWS))
    return {
        "permuted": _mixed_gains(data),
        "random": measured_again(
            _of_learned, (with_data(record, _untaught(data, rng)) for rng in rngs)
        ),
        "false world": measured_again(measure, [with_data(record, _by_another_law(data))]),
    }


def _of_learned(record: Record) -> Measured:
    return Measured(_learned(record.data), {})


def _mixed_gains(data: xr.Dataset) -> dict[str, Draws]:
    """Least ratios where packings of a dimension are shuffled among greedy and optimised ones."""
    rng = np.random.default_rng(0)
    dims = np.intersect1d(data.greedy_dim, data.optimised_dim)
    pool = np.hstack([data.greedy.sel(greedy_dim=dims), data.optimised.sel(optimised_dim=dims)])
    mixed = rng.permuted(np.broadcast_to(pool, (N_DRAWS, *pool.shape)), axis=-1)
    greedy, optimised = np.split(mixed, [data.sizes["seed"]], axis=-1)
    best = greedy.max(axis=-1)
    return {
        "jl-optimised-gain": (optimised.max(axis=-1) / best).min(axis=-1),
        "jl-optimised-every": (optimised.min(axis=-1) / best).min(axis=-1),
    }


def _untaught(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The data with random sets of directions, drawn anew, in the place of trained ones."""
    coherence = data.coherence.copy()
    order = rng.integers(data.sizes["seed"], size=data.sizes["seed"])
    coherence.loc[{"kind": "learned"}] = coherence.sel(kind="random").isel(seed=order).values
    return data.assign(coherence=coherence)


def _by_another_law(data: xr.Dataset) -> xr.Dataset:
    """The data in which crosstalk is independent, and no more is decoded than is guaranteed."""
    decoded = data.decoding_law.broadcast_like(data.decoded).transpose(*data.decoded.dims)
    guaranteed = np.where(decoded >= 0.5, data.n_active, 0).max(axis=1)
    return data.assign(decoded=decoded, guaranteed=("dictionary", guaranteed))


def growth_rate(data: xr.Dataset, name: str) -> Estimate:
    """Slope of ln N against d: of ``random``, ``greedy`` or ``optimised`` directions."""
    counts = data[name]
    dims = counts[counts.dims[0]]
    return slope_estimate(np.repeat(dims.values, counts.shape[1]), np.log(counts.values))


@measures("jl-optimised-*", "jl-random-*", "jl-greedy-exponent", "jl-packing-bounds")
def _sizes(data: xr.Dataset) -> dict[str, Estimate]:
    """Counts of directions, their growth, and their comparison with the bounds."""
    # Arithmetic keeps the dimensions that both have.
    greedy = data.greedy.rename(greedy_dim="dim")
    optimised = data.optimised.rename(optimised_dim="dim")

    def against_law(*trials: np.ndarray) -> float:
        drawn = zip(data.random.values, trials, data.random_law.values, strict=True)
        return float(np.mean([np.median(counts[i]) / law for counts, i, law in drawn]))

    def least_gain(of_greedy: np.ndarray, of_optimised: np.ndarray) -> float:
        chosen = optimised.isel(seed=of_optimised).max("seed")
        return float((chosen / greedy.isel(seed=of_greedy).max("seed")).min())

    n_seeds = data.sizes["seed"]
    every = optimised.min("seed") / greedy.max("seed")
    return {
        "jl-random-exponent": growth_rate(data, "random"),
        "jl-random-capacity": resampled_estimate(
            against_law, *[data.sizes["trial"]] * data.sizes["random_dim"]
        ),
        "jl-greedy-exponent": growth_rate(data, "greedy"),
        "jl-optimised-exponent": growth_rate(data, "optimised"),
        "jl-optimised-gain": resampled_estimate(least_gain, n_seeds, n_seeds, n=n_seeds),
        "jl-optimised-every": exact(every.min(), n_seeds)._replace(method="smallest of all seeds"),
        "jl-packing-bounds": exact((data.optimised.max("seed") / data.bound).max()),
    }


@measures("jl-learned-*")
def _learned(data: xr.Dataset) -> dict[str, Estimate]:
    """Distance of trained features from random directions and from optimised ones."""
    signed = data.coherence.sel(measure="signed")
    # Distances are measured between means over seeds of random sets and the best optimised one.
    start = signed.sel(kind="random").mean("seed")
    goal = signed.sel(kind="optimised").min("seed")
    n, m = data.n_represented, data.width
    welch = (n - m) / (m * (n - 1))
    frame = data.coherence.sel(kind="learned", measure="mean_square") / welch.where(n > m)
    return {
        "jl-learned-signed": mean_estimate((start - signed.sel(kind="learned")) / (start - goal)),
        "jl-learned-welch": mean_of_finite(frame),
    }


@measures("jl-decoding-*", "jl-decoding")
def _decoding(data: xr.Dataset) -> dict[str, Estimate]:
    """Accuracy of threshold read-outs of active features: means over random dictionaries."""
    decoded, n_active = data.decoded.values, data.n_active.values
    guaranteed = np.maximum(data.guaranteed.values, 1)

    def gap_to(law: np.ndarray) -> Estimate:
        return resampled_estimate(
            lambda i: float(np.abs(decoded[i].mean(axis=0) - law).max()), len(decoded)
        )

    reach = np.where(decoded >= 0.5, n_active, 0).max(axis=1) / guaranteed
    return {
        "jl-decoding": gap_to(decoding_law(data)),
        "jl-decoding-independent": gap_to(data.decoding_law.values),
        "jl-decoding-reach": mean_estimate(reach),
    }


def decoding_law(data: xr.Dataset) -> np.ndarray:
    """Share of trials decoded without an error, by the law with a shared length of the state."""
    sizes = data.attrs["decode_features"], data.attrs["decode_dim"]
    return np.array([sphere_success(*sizes, int(k)) for k in data.n_active.values])
