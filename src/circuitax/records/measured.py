"""The measured numbers of an experiment, which settle its claims."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from circuitax.records.estimate import Estimate, finite_or_none


class Measured(NamedTuple):
    """Return value of an experiment's ``measure(record)``.

    Attributes:
        estimates: Numbers with their intervals, by the names that the claims use.
        unmet: Claims whose precondition is not met, by id, with the reason: no seed has an
            induction head, say, or every head is one. Their verdict is ``"absent"``.
        not_run: Claims that nothing could settle, by id, with the reason: weights are not at hand,
            a precision is too low, texts are others. Their verdict is ``"not run"``.
    """

    estimates: dict[str, Estimate]
    unmet: dict[str, str]
    not_run: Mapping[str, str] = MappingProxyType({})

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``scalars.json``; numbers that are not finite become ``None``."""
        numbers = {name: finite_or_none(item._asdict()) for name, item in self.estimates.items()}
        return {"measured": numbers, "unmet": dict(self.unmet), "not_run": dict(self.not_run)}
