"""How the record of nearly orthogonal directions settles its claims."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, exact, mean_estimate, mean_of_finite
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from circuitax.records.slope import slope_estimate


def measure(record: Record) -> Measured:
    """The measured value of every claim, and the growth rate of optimised packings."""
    data = record.data
    return Measured({**_sizes(data), **_learned(data), **_decoding(data)}, {})


def growth_rate(data: xr.Dataset, name: str) -> Estimate:
    """Slope of ln N against d: of ``random``, ``greedy`` or ``optimised`` directions."""
    counts = data[name]
    dims = counts[counts.dims[0]]
    return slope_estimate(np.repeat(dims.values, counts.shape[1]), np.log(counts.values))


def _sizes(data: xr.Dataset) -> dict[str, Estimate]:
    """How many directions there are, how their number grows, and how it compares."""
    greedy = data.greedy.max("seed").rename(greedy_dim="dim")
    optimised = data.optimised.max("seed").rename(optimised_dim="dim")
    gain = optimised / greedy  # over the dimensions that both have
    median = data.random.median("trial")
    return {
        "jl-random-exponent": growth_rate(data, "random"),
        "jl-random-capacity": mean_estimate(median / data.random_law)._replace(n=data.random.size),
        "jl-greedy-exponent": growth_rate(data, "greedy"),
        "jl-optimised-exponent": growth_rate(data, "optimised"),
        "jl-optimised-gain": exact(gain.min(), gain.size),
        "jl-packing-bounds": exact((data.optimised.max("seed") / data.bound).max()),
    }


def _learned(data: xr.Dataset) -> dict[str, Estimate]:
    """How far trained features are from random directions and from optimised ones."""
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


def _decoding(data: xr.Dataset) -> dict[str, Estimate]:
    """How well a threshold reads out active features."""
    n = data.attrs["n_decode"]
    half = data.n_active.where(data.decoded >= 0.5).max()
    return {
        "jl-decoding": exact(np.abs(data.decoded - data.decoding_law).max(), n),
        "jl-decoding-reach": exact(half / max(data.attrs["guaranteed"], 1), n),
    }
