"""What is measured of a walk that was recorded."""

from circuitax.records.estimate import exact, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record


def measure(record: Record) -> Measured:
    spread = mean_estimate(record.data["end"].values ** 2)
    few = record.notes["members"] <= 2
    return Measured(
        {"start": exact(0.0), "spread": spread}, {"walk-spreads": "too few members"} if few else {}
    )
