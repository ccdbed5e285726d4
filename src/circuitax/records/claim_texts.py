"""Texts of a claim, the same on every page: number, null, verdict, and further facts."""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.agreement import Here
from circuitax.records.claims import (
    ABSENT,
    FAILS,
    HOLDS,
    NOT_RUN,
    UNDECIDED,
    VERDICTS,
    WOULD_HOLD,
    SettledClaim,
)
from circuitax.records.estimate import Estimate, deciding_n
from circuitax.records.nulls import BY_PROOF, PRINTED_NUMBER

NOT_DECLARED = "not declared"
# A mark for each verdict, so that no reader depends on colour.
MARKS = {HOLDS: "✔", FAILS: "✘", UNDECIDED: "?", WOULD_HOLD: "≈", ABSENT: "∅", NOT_RUN: "–"}
# Beyond this many replicates a value lies at its limit, for all that more of them would tell.
MOST_REPLICATES = 1e6
_MANY = {HOLDS: "hold", FAILS: "fail"}


class ClaimRow(NamedTuple):
    """A verdict and the run that gave it; addresses are relative to the page.

    Attributes:
        settled: Claim, measured value, verdict and reason.
        experiment: Name of the experiment.
        scale: Scale of the run.
        run: Identity of the run.
        link: Address of the run's folder.
        figure: Address of its figure, or of its figures in the gallery.
        code: Address of the function that measures the claim.
        outdated: That the present code gives other numbers, in words; empty where it does not.
        here: The claim as it was measured on this machine, on pages that show that beside it.
        made: Address of the run that measured it here.
    """

    settled: SettledClaim
    experiment: str
    scale: str
    run: str
    link: str
    figure: str
    code: str
    outdated: str = ""
    here: Here | None = None
    made: str = ""


def cell(text: object) -> str:
    """A text on one line in which no bar ends the cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def sentence(text: str) -> str:
    """A text on one line that ends with one dot."""
    return f"{cell(text).removesuffix('.')}."


def measured_text(estimate: Estimate | None) -> str:
    """A value with its interval, such as ``0.752 [0.741, 0.763]``."""
    if estimate is None:
        return "-"
    value = f"{estimate.value:.4g}"
    if estimate.low == estimate.high == estimate.value:
        return value
    return f"{value} [{estimate.low:.4g}, {estimate.high:.4g}]"


def verdict_lines(found: Sequence[SettledClaim], most: int = 12) -> list[str]:
    """The `verdict_line` of each claim, those that do not hold first.

    Args:
        found: Verdicts of one run.
        most: How many lines; another counts the omitted claims.
    """
    ranked = sorted(found, key=lambda settled: settled.verdict == HOLDS)
    lines = [verdict_line(settled) for settled in ranked[:most]]
    rest = [settled.verdict for settled in ranked[most:]]
    return [*lines, *([f"and {counts_text(rest)} more"] if rest else [])]


def verdict_line(settled: SettledClaim) -> str:
    """``id: 1.05 [0.90, 1.20], wanted 1 ± 0.2: undecided, n = 3 of 5``."""
    claim, estimate = settled.claim, settled.estimate
    if estimate is None or settled.verdict in (ABSENT, NOT_RUN):
        return f"{claim.id}: {settled.verdict}: {settled.reason}"
    n = f"{estimate.n} of {claim.n}" if estimate.n < claim.n else f"{estimate.n}"
    number = f"{measured_text(estimate)}, wanted {claim.expected.text}"
    return f"{claim.id}: {number}: {settled.verdict}, n = {n}"


def null_text(settled: SettledClaim) -> str:
    """Outcome of the null of a claim, or the reason why there is none.

    Such as ``permuted: 0.02 [-0.21, 0.24], 0 of 100 would hold`` (median, 5 and 95 % quantile of
    the draws) or ``printed number: tolerance 10 % of the way to a random answer, 0.25``.
    """
    claim, outcome = settled.claim, settled.null
    if claim.null is None:
        return NOT_DECLARED if claim.needs_null else BY_PROOF
    if claim.null.kind == PRINTED_NUMBER:
        way = f"tolerance {claim.tolerance:.2g} of the way to a random answer"
        return f"{PRINTED_NUMBER}: {way}, {claim.null.answer:.4g}"
    if outcome is None:
        return claim.null.kind
    drawn = f"{claim.null.kind}: "
    if outcome.median is not None:
        drawn += f"{outcome.median:.4g} [{outcome.low:.4g}, {outcome.high:.4g}], "
    return f"{drawn}{outcome.holding} of {outcome.n} would hold"


def here_text(here: Here) -> str:
    """Agreement in a word, the number measured here with its n, and its distance or its absence.

    Such as ``differs: 0.31 [0.28, 0.34], n = 5; apart 3.1 times what both intervals allow``.
    """
    estimate = here.estimate
    number = "" if estimate is None else f"{measured_text(estimate)}, n = {estimate.n}"
    said = "; ".join(filter(None, [number, here.told]))
    return f"{here.word}: {said}" if said else here.word


def facts(settled: SettledClaim, scale: str) -> dict[str, str]:
    """Texts of a claim's fold by their names, beside its source; none is empty.

    Args:
        settled: A claim and how it fared.
        scale: Scale of the run.
    """
    claim, estimate = settled.claim, settled.estimate
    texts = {
        "because": claim.why,
        "selection": claim.selection,
        "null": claim.null.how if claim.null else "",
        "interval": estimate.method if estimate else "",
        "planned n": "" if estimate and estimate.n == claim.n else str(claim.n),
        "would decide": _deciding_text(settled),
        "scale": scale,
        "about it": claim.explanation if settled.verdict == HOLDS else "",
    }
    return {name: text for name, text in texts.items() if text}


def _deciding_text(settled: SettledClaim) -> str:
    """Replicates that would decide at the present spread; empty where no number is known."""
    estimate, allowed = settled.estimate, settled.claim.expected
    if settled.verdict != UNDECIDED or estimate is None or estimate.n < 2:
        return ""
    if estimate.method.startswith(("proven", "least squares")):  # no interval over replicates
        return ""
    n = deciding_n(estimate, allowed.low, allowed.high)
    if not n < MOST_REPLICATES:
        return "no number of replicates at this value, which lies at the limit"
    return f"about {float(f'{n:.2g}'):.0f} replicates, if value and spread stay"


def cause(settled: SettledClaim) -> str:
    """Cause of a claim that does not hold: a hypothesis, its test, or the reason of the verdict."""
    text = sentence(settled.reason or "none yet")
    if text.lower().startswith("tested"):  # a test is no hypothesis, and says so itself
        return text
    guess = settled.verdict == FAILS or settled.claim.explanation == settled.reason
    return f"{'Hypothesis' if guess else 'Reason'}: {text}"


def counts_text(verdicts: Sequence[str]) -> str:
    """Count of each verdict, such as ``"3 hold, 1 undecided"``."""
    return ", ".join(
        f"{verdicts.count(name)} {_MANY.get(name, name)}" for name in VERDICTS if name in verdicts
    )


def badge(claims: Sequence[SettledClaim]) -> str:
    """Count of claims with each verdict, with its mark: ``"✔ 3 hold · ✘ 1 fails"``."""
    given = [settled.verdict for settled in claims]
    counts = {name: given.count(name) for name in VERDICTS if name in given}
    return " · ".join(
        f"{MARKS[name]} {n} {name if n == 1 else _MANY.get(name, name)}"
        for name, n in counts.items()
    )
