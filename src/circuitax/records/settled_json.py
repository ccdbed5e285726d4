"""Settled claims as plain values of a run's ``claims.json``."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from circuitax.records.claims import RELATION, Claim, Expected, SettledClaim
from circuitax.records.estimate import estimate_from_json, finite_or_none
from circuitax.records.nulls import Null, NullOutcome


def settled_to_json(settled: SettledClaim) -> dict[str, Any]:
    """A settled claim as plain values for ``claims.json``; infinite ends become ``None``."""
    claim, null = settled.claim, settled.null
    fields = {name: getattr(claim, name) for name in _PLAIN}
    fields["cites"] = list(claim.cites)
    fields["expected"] = finite_or_none(claim.expected._asdict())
    fields["verdict"] = settled.verdict
    fields["reason"] = settled.reason
    estimate = settled.estimate
    fields["measured"] = None if estimate is None else finite_or_none(estimate._asdict())
    fields["null"] = None if claim.null is None else asdict(claim.null)
    fields["null_outcome"] = None if null is None else finite_or_none(null._asdict())
    return fields


def settled_from_json(fields: Mapping[str, Any]) -> SettledClaim:
    """The inverse of ``settled_to_json``."""
    bounds = dict(fields["expected"])
    bounds["low"] = -math.inf if bounds["low"] is None else bounds["low"]
    bounds["high"] = math.inf if bounds["high"] is None else bounds["high"]
    # A run that was settled before claims had nulls keeps none.
    declared, outcome = fields.get("null"), fields.get("null_outcome")
    claim = Claim(
        expected=Expected(**bounds),
        cites=tuple(fields.get("cites", ())),  # nor what it cites
        null=None if declared is None else Null(**declared),
        **{name: fields[name] for name in _PLAIN} | {"kind": kind_of(fields)},
    )
    measured = fields["measured"]
    estimate = None if measured is None else estimate_from_json(measured)
    null = None if outcome is None else NullOutcome(**outcome)
    return SettledClaim(claim, fields["verdict"], estimate, fields["reason"], null)


def kind_of(fields: Mapping[str, Any]) -> str:
    """Kind of a saved claim, a relation by its former name too."""
    kind: str = fields["kind"]
    return RELATION if kind == "shape" else kind


_PLAIN = tuple(n for n in Claim.__dataclass_fields__ if n not in {"expected", "cites", "null"})
