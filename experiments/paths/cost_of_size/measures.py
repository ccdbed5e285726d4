"""Measured exponents of cost, and the limits of one machine, from a saved record."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, exact
from circuitax.records.measured import Measured
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.slope import slope_estimate

LARGEST = 3  # sizes that an exponent is measured at
FLAT = 0.05  # exponents below this are growth that nobody waits for
# One machine: two cores for a day, and 16 GB.
SECONDS, MEGABYTES = 2 * 86_400.0, 16 * 1024.0


def measure(record: Record) -> Measured:
    """Exponents of time and memory, and the size of each that ends one machine."""
    found = {}
    for name in record.data.grows.values:
        found[f"cost-{name}"] = exponent(record.data, name, "seconds")
        found[f"cost-{name}-memory"] = exponent(record.data, name, "megabytes")
    return Measured(found, {})


def nulls(record: Record) -> Nulls:
    """Exponents of costs that grow by one more power of the size."""
    data = record.data
    dearer = data.assign({name: data[name] * data["size"] for name in ("seconds", "megabytes")})
    return {"false world": measured_again(measure, [with_data(record, dearer)])}


def exponent(data: xr.Dataset, name: str, cost: str) -> Estimate:
    """Slope of log cost over log size at the largest sizes.

    The interval is that of repeated timings. What one size needs of memory is planned and not
    sampled: it has no interval, nor has a slope through two points.
    """
    size, costs = costs_of(data, name, cost)
    size, costs = size[-LARGEST:], costs[-LARGEST:]
    x, y = np.repeat(np.log(size), costs.shape[1]), np.log(costs).ravel()
    if costs.shape[1] == 1 or len(x) < 3:
        return exact(np.polyfit(x, y, 1)[0], len(x))
    return slope_estimate(x, y)


def costs_of(data: xr.Dataset, name: str, cost: str) -> tuple[np.ndarray, np.ndarray]:
    """The sizes of one computation, and its costs ``[size, round]``."""
    part = data.sel(grows=name)
    kept = np.isfinite(part["size"].values)
    values = part[cost].values[kept]
    return part["size"].values[kept], values.reshape(len(values), -1)


def end_of_one_machine(data: xr.Dataset, name: str) -> tuple[float, str]:
    """The size at which time or memory reaches the machine's limit, and the first of the two.

    Costs are continued by their exponent; memory that grows faster and faster is a constant and a
    part in proportion, and is continued as a straight line. Infinite where neither grows visibly.
    """
    ends = {}
    for cost, limit in (("seconds", SECONDS), ("megabytes", MEGABYTES)):
        size, costs = costs_of(data, name, cost)
        middle, slope = np.median(costs, axis=1), exponent(data, name, cost).value
        steps = np.diff(np.log(middle)) / np.diff(np.log(size))
        if slope <= FLAT:
            ends[cost] = np.inf
        elif cost == "megabytes" and len(steps) > 1 and steps[-1] > steps[-2]:
            each = (middle[-1] - middle[-2]) / (size[-1] - size[-2])
            ends[cost] = float(size[-1] + (limit - middle[-1]) / each)
        else:
            ends[cost] = float(size[-1] * (limit / middle[-1]) ** (1 / slope))
    first = min(ends, key=ends.__getitem__)
    return ends[first], first
