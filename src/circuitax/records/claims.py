"""Claims: statements with source, expected interval, measurement and verdict."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict, Unpack

from circuitax.display.tables import fact_table
from circuitax.documented import documented
from circuitax.records.estimate import Estimate
from circuitax.records.nulls import DRAWN, PRINTED_NUMBER, Null, NullOutcome, Nulls, null_outcome

IDENTITY, NUMBER, RELATION = "identity", "number", "relation"
KINDS = (IDENTITY, NUMBER, RELATION)
# Who says so, as `Claim.origin` explains.
PUBLISHED, CORRECTION, THEOREM, OURS = "published", "correction", "theorem", "ours"
ORIGINS = (PUBLISHED, CORRECTION, THEOREM, OURS)
# The verdicts, as `SettledClaim` explains.
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
WOULD_HOLD = "would hold anyway"
ABSENT, NOT_RUN = "absent", "not run"
VERDICTS = (HOLDS, FAILS, UNDECIDED, WOULD_HOLD, ABSENT, NOT_RUN)


@documented
class Expected(NamedTuple):
    """The allowed interval of a claim.

    Attributes:
        low: Least value allowed, -inf for none.
        high: Greatest value allowed, inf for none.
        text: The interval in words, such as ``"0.75 ± 0.02"``.
    """

    low: float
    high: float
    text: str

    def verdict(self, estimate: Estimate) -> str:
        """Verdict on a claim by the whole interval of the estimate, the same rule for all.

        ``"holds"`` if all of it lies in what is allowed, ``"fails"`` if none of it does,
        ``"undecided"`` in between. A value that is not a number fails.
        """
        if self.low <= estimate.low and estimate.high <= self.high:
            return HOLDS
        reaches = estimate.low <= self.high and self.low <= estimate.high
        return UNDECIDED if reaches and not math.isnan(estimate.value) else FAILS


def near(value: float | int, tol: float | int) -> Expected:
    """``value ± tol``.

    Raises:
        ValueError: If ``tol`` is negative.
    """
    if not tol >= 0:
        raise ValueError(f"tol={tol} must not be negative")
    return Expected(value - tol, value + tol, f"{value:g} ± {tol:g}")


def between(low: float | int, high: float | int) -> Expected:
    """``low`` to ``high``, both ends allowed.

    Raises:
        ValueError: If ``low`` is greater than ``high``.
    """
    if not low <= high:
        raise ValueError(f"low={low} must not be greater than high={high}")
    return Expected(low, high, f"{low:g} to {high:g}")


def at_least(low: float | int) -> Expected:
    """``low`` or more."""
    return Expected(low, math.inf, f"≥ {low:g}")


def at_most(high: float | int) -> Expected:
    """``high`` or less."""
    return Expected(-math.inf, high, f"≤ {high:g}")


@dataclass(frozen=True)
class Claim:
    """One statement, with all of it fixed before the first run.

    Attributes:
        id: Short name, unique over all experiments, such as ``"pentagon-hit-rate"``.
        source: Where it comes from, with section or number.
        statement: The statement in the source's sense, one sentence.
        quantity: Name of the measured value that settles it.
        expected: Interval allowed (``near``, ``between``, ``at_least``, ``at_most``).
        why: Why that tolerance.
        kind: ``"identity"`` (true by algebra), ``"number"`` or ``"relation"``.
        selection: Which runs or members count, by a rule fixed beforehand.
        n: Fewest independent replicates on which a verdict is given.
        explanation: What may be the cause, once a claim has failed: a hypothesis, or a test of one.
        origin: Who says so. ``"published"``: the source says it. ``"correction"``: we say that
            the source slips, and this is the corrected statement. ``"theorem"``: true by proof,
            such as closed forms, identities and union bounds. ``"ours"``: we say it, and so do
            reference numbers that we computed.
        printed: The number or the sentence that the source prints, in our words. A published
            claim has one, and says so where the source prints no number.
        link: Address of the source. A published claim has one.
        cites: The papers that the source names, such as `records.papers.Paper.FRAMEWORK`; a reader
            chooses one in the report.
        null: The null beside it, or why it needs none; None where that is not declared yet. What
            is true by algebra or by proof needs no declaration.

    Raises:
        ValueError: If ``kind`` or ``origin`` is unknown, a text is empty that must not be, a link
            is no address, ``n`` is less than 1, or the claim allows no tolerance for its printed
            number or allows what a random answer gives.
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
    origin: str = field(kw_only=True)
    printed: str = field(default="", kw_only=True)
    link: str = field(default="", kw_only=True)
    cites: tuple[str, ...] = field(default=(), kw_only=True)
    null: Null | None = field(default=None, kw_only=True)

    def _facts(self) -> dict[str, str]:
        return {
            "source": self.source,
            "printed": self.printed,
            "allowed": f"{self.quantity}: {self.expected.text}",
            "because": self.why,
            "selection": f"{self.selection}, n = {self.n} or more",
            "null": "" if self.null is None else f"{self.null.kind}: {self.null.how}",
            "explanation": self.explanation,
        }

    def __str__(self) -> str:
        """The statement, what is allowed and why, a line each; ``repr`` has every field."""
        lines = [f"  {name}: {text}" for name, text in self._facts().items() if text]
        return "\n".join([f"{self.id}: {self.statement}", *lines])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return fact_table(f"{self.id}: {self.statement}", self._facts())

    def __post_init__(self) -> None:
        for name, allowed in (("kind", KINDS), ("origin", ORIGINS)):
            if getattr(self, name) not in allowed:
                given = f"{name}={getattr(self, name)!r}"
                raise ValueError(f"{given} of claim {self.id!r} must be one of {allowed}")
        needed = ["id", "source", "statement", "quantity", "why"]
        if self.origin == PUBLISHED:
            needed += ["link", "printed"]
        for name in needed:
            if not getattr(self, name):
                raise ValueError(f"{name} of claim {self.id!r} must not be empty")
        if self.link and not self.link.startswith("https://"):
            raise ValueError(f"link={self.link!r} of claim {self.id!r} must start with https://")
        if self.n < 1:
            raise ValueError(f"n={self.n} of claim {self.id!r} must be at least 1")
        if self.null is not None and self.null.kind == PRINTED_NUMBER and not self.tolerance < 1:
            raise ValueError(
                f"answer={self.null.answer} of the null of claim {self.id!r} must lie outside of "
                f"what is allowed, {self.expected.text}, which must have two ends"
            )

    @property
    def needs_null(self) -> bool:
        """Whether the claim must declare a null; a theorem or an identity needs none."""
        return self.kind != "identity" and self.origin != THEOREM

    @property
    def tolerance(self) -> float:
        """Half of what is allowed, as a share of the way from its middle to a random answer.

        Below 1 a random answer lies outside; nan without a printed number or with an open end.
        """
        low, high, _ = self.expected
        answer = None if self.null is None else self.null.answer
        if answer is None or not math.isfinite(high - low):
            return math.nan
        way = abs(answer - (low + high) / 2)
        return (high - low) / 2 / way if way else math.inf


class _Shared(TypedDict, total=False):
    """Fields of a claim that its source may give."""

    kind: str
    selection: str
    n: int
    origin: str
    printed: str
    link: str
    cites: tuple[str, ...]
    null: Null | None


@dataclass(frozen=True)
class ClaimSource:
    """A source of claims, and the common fields of the claims of one experiment, as in `Claim`.

    ``paper = ClaimSource("induction-heads paper", cites=(Paper.INDUCTION,), kind="relation", n=16,
    origin="published", link=papers.INDUCTION, printed="no such head in one layer")``; then
    ``paper.claim("prefix-one-layer", "Share of ...", at_most(0.25), "a relation")``. A variant
    with other defaults is ``dataclasses.replace(paper, n=5)``.

    Attributes:
        source: Paper or other source; a section may follow in each claim.
        why: Reason for the tolerance of claims that give none of their own.
        opening: What every statement begins with, such as ``"On real text, "``.
    """

    source: str
    kind: str = "number"
    selection: str = "all members"
    n: int = 1
    why: str = ""
    opening: str = ""
    origin: str = field(kw_only=True)
    printed: str = field(default="", kw_only=True)
    link: str = field(default="", kw_only=True)
    cites: tuple[str, ...] = field(default=(), kw_only=True)
    null: Null | None = field(default=None, kw_only=True)

    def claim(
        self,
        id: str,
        statement: str,
        expected: Expected,
        why: str | None = None,
        *,
        section: str = "",
        quantity: str | None = None,
        explanation: str = "",
        **own: Unpack[_Shared],
    ) -> Claim:
        """One claim of this source, whose fields are as in `Claim`.

        Args:
            id: Short name.
            statement: The statement without the ``opening``.
            expected: Interval allowed.
            why: Why that tolerance; the source's when None.
            section: Section or number, written after the source and a comma.
            quantity: Name of the measured value; ``id`` when None.
            explanation: What may be the cause, once it has failed.
            **own: Fields in which the claim differs from its source.

        Raises:
            ValueError: As `Claim`.
        """
        fields: dict[str, Any] = {name: getattr(self, name) for name in _Shared.__annotations__}
        fields.update(own)
        return Claim(
            id=id,
            source=f"{self.source}, {section}" if section else self.source,
            statement=f"{self.opening}{statement}",
            quantity=id if quantity is None else quantity,
            expected=expected,
            why=self.why if why is None else why,
            explanation=explanation,
            **fields,
        )


def unmet_rest(
    claims: Iterable[Claim], measured: Mapping[str, Estimate], why: str
) -> dict[str, str]:
    """One reason for every claim without a measured quantity, by the claim's id."""
    return {claim.id: why for claim in claims if claim.quantity not in measured}


class SettledClaim(NamedTuple):
    """A claim with its measurement, the verdict and its reason.

    Attributes:
        claim: The claim.
        verdict: ``"holds"``, ``"fails"`` or ``"undecided"``, as `Expected.verdict` has it. Or
            ``"would hold anyway"``: it holds, and in more than 5 % of the draws of its null too. Or
            ``"absent"``: its precondition is not met by the trained models, such as an induction
            head that did not form, or a head that is none where all of them are. Or ``"not run"``:
            what would settle it was not at hand, such as external weights. Fewer replicates than
            planned leave a claim undecided, whatever its interval.
        estimate: What was measured, if anything.
        reason: Why there is no other verdict; the claim's explanation where it has one.
        null: How it fared in the draws of its null, if that is drawn and something was measured.
    """

    claim: Claim
    verdict: str
    estimate: Estimate | None
    reason: str
    null: NullOutcome | None = None

    @property
    def on_bare_sign(self) -> bool:
        """Whether the claim asks for a sign alone.

        Its limit is 0, or it has one limit, which lies in its null's own interval, from the 5 to
        the 95 % quantile of the drawn values: a count of 1 where none or one is drawn, or 0.05 of
        what is drawn as far from 0.
        """
        low, high, _ = self.claim.expected
        if 0 in (low, high):
            return True
        ends = [end for end in (low, high) if math.isfinite(end)]
        null = self.null
        if len(ends) != 1 or null is None or null.low is None or null.high is None:
            return False
        return null.low <= ends[0] <= null.high


def settle(
    claims: Iterable[Claim],
    measured: Mapping[str, Estimate],
    unmet: Mapping[str, str],
    not_run: Mapping[str, str] | None = None,
    nulls: Nulls | None = None,
) -> list[SettledClaim]:
    """The verdict on every claim of an experiment.

    Args:
        claims: All claims of the experiment.
        measured: Estimates, by the names that the claims use.
        unmet: Why the precondition of a claim is not met, by the claim's id: it is absent.
        not_run: Why a claim could not be settled at all, by its id: it was not run. A claim that
            was measured on fewer replicates than planned is undecided.
        nulls: Draws of the nulls, by kind and quantity.

    Raises:
        ValueError: If a claim's quantity was neither measured nor named in ``unmet`` or
            ``not_run``, these name a claim that the experiment does not make, or a claim was
            measured and its null that is to be drawn has no draws, or draws that are no numbers.
    """
    known = list(claims)
    reasons = {name: (ABSENT, why) for name, why in unmet.items()}
    reasons |= {name: (NOT_RUN, why) for name, why in (not_run or {}).items()}
    unknown = sorted(set(reasons) - {claim.id for claim in known})
    if unknown:
        raise ValueError(
            f"unmet or not_run names {unknown}, but the experiment's claims have no such id"
        )
    return [_settle_one(claim, measured, reasons.get(claim.id), nulls or {}) for claim in known]


def _settle_one(
    claim: Claim,
    measured: Mapping[str, Estimate],
    unsettled: tuple[str, str] | None,
    nulls: Nulls,
) -> SettledClaim:
    estimate = measured.get(claim.quantity)
    if unsettled is not None:
        return SettledClaim(claim, unsettled[0], estimate, unsettled[1])
    if estimate is None:
        raise ValueError(
            f"claim {claim.id!r} needs measured[{claim.quantity!r}], unmet[{claim.id!r}] or "
            f"not_run[{claim.id!r}]; measured has {sorted(measured)}"
        )
    null = _drawn(claim, nulls)
    if estimate.n < claim.n:
        few = f"n = {estimate.n} of {claim.n} planned"
        why = f"{few}: {claim.explanation}" if claim.explanation else few
        return SettledClaim(claim, UNDECIDED, estimate, why, null)
    verdict = claim.expected.verdict(estimate)
    if verdict == HOLDS and null is not None and null.holds:
        anyway = f"it would hold in {null.holding} of {null.n} draws of its null"
        why = f"{anyway}: {claim.explanation}" if claim.explanation else anyway
        return SettledClaim(claim, WOULD_HOLD, estimate, why, null)
    return SettledClaim(claim, verdict, estimate, claim.explanation, null)


def _drawn(claim: Claim, nulls: Nulls) -> NullOutcome | None:
    """Outcome of a claim in its null; None where that is not drawn."""
    if claim.null is None or claim.null.kind not in DRAWN:
        return None
    draws = nulls.get(claim.null.kind, {}).get(claim.quantity)
    if draws is None:
        raise ValueError(
            f"claim {claim.id!r} needs draws of its null: nulls(record) must have "
            f"[{claim.null.kind!r}][{claim.quantity!r}]"
        )
    try:
        return null_outcome(draws, lambda draw: claim.expected.verdict(draw) == HOLDS)
    except ValueError as error:
        raise ValueError(f"the null of claim {claim.id!r}: {error}") from error
