"""The numbers that an experiment measured from its record, which settle its claims."""

from typing import Any, NamedTuple

from circuitax.records.estimate import Estimate, finite_or_none


class Measured(NamedTuple):
    """What ``measure(record)`` of an experiment returns.

    Attributes:
        estimates: Numbers with their intervals, by the names that the claims use.
        unmet: Claims whose precondition was not met, by id, with the reason.
    """

    estimates: dict[str, Estimate]
    unmet: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``scalars.json``; numbers that are not finite become ``None``."""
        numbers = {name: finite_or_none(item._asdict()) for name, item in self.estimates.items()}
        return {"measured": numbers, "unmet": dict(self.unmet)}
