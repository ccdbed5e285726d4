"""Published statements as claims: what is expected, what was measured, and the verdict."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from circuitax.records.estimate import Estimate, estimate_from_json, finite_or_none

KINDS = ("identity", "number", "shape")
HOLDS = "holds"
FAILS = "fails"
OUT_OF_REACH = "out of reach"


class Expected(NamedTuple):
    """The interval that a claim allows.

    Attributes:
        low: Least value allowed, -inf for none.
        high: Greatest value allowed, inf for none.
        text: The interval in words, such as ``"0.75 ± 0.02"``.
        whole_interval: Whether the whole interval of the estimate must lie inside (relations),
            or its value only (numbers with a stated tolerance).
    """

    low: float
    high: float
    text: str
    whole_interval: bool = False

    def admits(self, estimate: Estimate) -> bool:
        """Whether the estimate satisfies the claim; a value that is not a number never does."""
        if self.whole_interval:
            return self.low <= estimate.low and estimate.high <= self.high
        return self.low <= estimate.value <= self.high


def near(value: float | int, tol: float | int, *, whole_interval: bool = False) -> Expected:
    """``value ± tol``.

    Raises:
        ValueError: If ``tol`` is negative.
    """
    if not tol >= 0:
        raise ValueError(f"tol={tol} must not be negative")
    return Expected(value - tol, value + tol, f"{value:g} ± {tol:g}", whole_interval)


def between(low: float | int, high: float | int, *, whole_interval: bool = False) -> Expected:
    """``low`` to ``high``, both ends allowed.

    Raises:
        ValueError: If ``low`` is greater than ``high``.
    """
    if not low <= high:
        raise ValueError(f"low={low} must not be greater than high={high}")
    return Expected(low, high, f"{low:g} to {high:g}", whole_interval)


def at_least(low: float | int, *, whole_interval: bool = True) -> Expected:
    """``low`` or more; the whole interval of the estimate must lie there unless told otherwise."""
    return Expected(low, math.inf, f"≥ {low:g}", whole_interval)


def at_most(high: float | int, *, whole_interval: bool = True) -> Expected:
    """``high`` or less; the whole interval of the estimate must lie there unless told otherwise."""
    return Expected(-math.inf, high, f"≤ {high:g}", whole_interval)


@dataclass(frozen=True)
class Claim:
    """One published statement, with everything fixed before the first run.

    Attributes:
        id: Short name, unique over all experiments, such as ``"pentagon-hit-rate"``.
        source: Where it is published, with section or number.
        statement: The statement in the source's sense, one sentence.
        quantity: Name of the measured value that settles it.
        expected: Interval allowed (``near``, ``between``, ``at_least``, ``at_most``).
        why: Why that tolerance.
        kind: ``"identity"`` (true by algebra), ``"number"`` or ``"shape"`` (a relation).
        selection: Which runs or members count, by a rule fixed beforehand.
        n: Fewest independent replicates on which a verdict is given.
        explanation: What is known about the cause, once a claim has failed.

    Raises:
        ValueError: If ``kind`` is unknown, a text is empty, or ``n`` is less than 1.
    """

    id: str
    source: str
    statement: str
    quantity: str
    expected: Expected
    why: str
    kind: str = "number"
    selection: str = "all members"
    n: int = 1
    explanation: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind={self.kind!r} of claim {self.id!r} must be one of {KINDS}")
        for name in ("id", "source", "statement", "quantity", "why"):
            if not getattr(self, name):
                raise ValueError(f"{name} of claim {self.id!r} must not be empty")
        if self.n < 1:
            raise ValueError(f"n={self.n} of claim {self.id!r} must be at least 1")


@dataclass(frozen=True)
class ClaimSource:
    """Where claims are published, and what those of one experiment have in common.

    ``paper = ClaimSource("induction-heads paper", kind="shape", n=16)``; then
    ``paper.claim("prefix-one-layer", "Share of ...", at_most(0.25), "a relation")``. A variant with
    other defaults is ``dataclasses.replace(paper, n=5)``.

    Attributes:
        source: As in `Claim`; a section may follow in each claim.
        kind: As in `Claim`.
        selection: As in `Claim`.
        n: As in `Claim`.
        why: Reason for the tolerance of claims that give none of their own.
        opening: What every statement begins with, such as ``"On real text, "``.
    """

    source: str
    kind: str = "number"
    selection: str = "all members"
    n: int = 1
    why: str = ""
    opening: str = ""

    def claim(
        self,
        id: str,
        statement: str,
        expected: Expected,
        why: str | None = None,
        *,
        section: str = "",
        quantity: str | None = None,
        kind: str | None = None,
        selection: str | None = None,
        n: int | None = None,
        explanation: str = "",
    ) -> Claim:
        """One claim of this source, with the source's values for what is not given.

        Args:
            id: As in `Claim`.
            statement: As in `Claim`, without the ``opening``.
            expected: As in `Claim`.
            why: As in `Claim`; the source's when None.
            section: Section or number, written after the source and a comma.
            quantity: Name of the measured value; ``id`` when None.
            kind: As in `Claim`; the source's when None.
            selection: As in `Claim`; the source's when None.
            n: As in `Claim`; the source's when None.
            explanation: As in `Claim`.

        Raises:
            ValueError: As `Claim`.
        """
        return Claim(
            id=id,
            source=f"{self.source}, {section}" if section else self.source,
            statement=f"{self.opening}{statement}",
            quantity=id if quantity is None else quantity,
            expected=expected,
            why=self.why if why is None else why,
            kind=self.kind if kind is None else kind,
            selection=self.selection if selection is None else selection,
            n=self.n if n is None else n,
            explanation=explanation,
        )


def unmet_rest(
    claims: Iterable[Claim], measured: Mapping[str, Estimate], why: str
) -> dict[str, str]:
    """One reason for every claim whose quantity was not measured, by the claim's id."""
    return {claim.id: why for claim in claims if claim.quantity not in measured}


class Verdict(NamedTuple):
    """A claim with what was measured: ``holds``, ``fails`` or ``out of reach``, and why."""

    claim: Claim
    verdict: str
    estimate: Estimate | None
    reason: str


def settle(
    claims: Iterable[Claim], measured: Mapping[str, Estimate], unmet: Mapping[str, str]
) -> list[Verdict]:
    """The verdict on every claim of an experiment.

    A claim whose precondition was not met (``unmet``), or that was measured on fewer
    replicates than planned, is out of reach at this scale.

    Raises:
        ValueError: If a claim's quantity was neither measured nor declared unmet, or ``unmet``
            names a claim that the experiment does not make.
    """
    known = list(claims)
    unknown = sorted(set(unmet) - {claim.id for claim in known})
    if unknown:
        raise ValueError(f"unmet names {unknown}, but the experiment's claims have no such id")
    return [_settle_one(claim, measured, unmet) for claim in known]


def _settle_one(
    claim: Claim, measured: Mapping[str, Estimate], unmet: Mapping[str, str]
) -> Verdict:
    estimate = measured.get(claim.quantity)
    if claim.id in unmet:
        return Verdict(claim, OUT_OF_REACH, estimate, unmet[claim.id])
    if estimate is None:
        raise ValueError(
            f"claim {claim.id!r} needs measured[{claim.quantity!r}] or unmet[{claim.id!r}]; "
            f"measured has {sorted(measured)}"
        )
    if estimate.n < claim.n:
        return Verdict(claim, OUT_OF_REACH, estimate, f"n = {estimate.n} of {claim.n} planned")
    verdict = HOLDS if claim.expected.admits(estimate) else FAILS
    return Verdict(claim, verdict, estimate, claim.explanation if verdict == FAILS else "")


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain values for ``claims.json``; infinite ends become ``None``."""
    claim = verdict.claim
    fields = {name: getattr(claim, name) for name in _PLAIN}
    fields["expected"] = finite_or_none(claim.expected._asdict())
    fields["verdict"] = verdict.verdict
    fields["reason"] = verdict.reason
    estimate = verdict.estimate
    fields["measured"] = None if estimate is None else finite_or_none(estimate._asdict())
    return fields


def verdict_from_json(fields: Mapping[str, Any]) -> Verdict:
    """The inverse of ``verdict_to_json``."""
    bounds = dict(fields["expected"])
    bounds["low"] = -math.inf if bounds["low"] is None else bounds["low"]
    bounds["high"] = math.inf if bounds["high"] is None else bounds["high"]
    claim = Claim(expected=Expected(**bounds), **{name: fields[name] for name in _PLAIN})
    measured = fields["measured"]
    estimate = None if measured is None else estimate_from_json(measured)
    return Verdict(claim, fields["verdict"], estimate, fields["reason"])


_PLAIN = tuple(name for name in Claim.__dataclass_fields__ if name != "expected")
