"""Claims as Markdown: lines of the summary, and rows and explanations of a page in detail."""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.agreement import AGREES, Here
from circuitax.records.chapters import CLAIMS
from circuitax.records.claim_sections import address, anchor
from circuitax.records.claims import FAILS, HOLDS, Verdict
from circuitax.records.estimate import Estimate
from circuitax.records.nulls import BY_PROOF, PRINTED_NUMBER

_COLUMNS = "claim", "printed", "ours", "null", "n", "verdict", "figure, run, code"
_HERE = "here"
NOT_DECLARED = "not declared"


class ClaimRow(NamedTuple):
    """A verdict and the run that gave it; addresses are relative to the page.

    Attributes:
        verdict: Claim, measured value, verdict and reason.
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

    verdict: Verdict
    experiment: str
    scale: str
    run: str
    link: str
    figure: str
    code: str
    outdated: str = ""
    here: Here | None = None
    made: str = ""


def cell(text: str) -> str:
    """A text on one line in which no bar ends the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def measured_text(estimate: Estimate | None) -> str:
    """A value with its interval, such as ``0.752 [0.741, 0.763]``."""
    if estimate is None:
        return "-"
    value = f"{estimate.value:.4g}"
    if estimate.low == estimate.high == estimate.value:
        return value
    return f"{value} [{estimate.low:.4g}, {estimate.high:.4g}]"


def null_text(verdict: Verdict) -> str:
    """What the null of a claim gives, or why there is none.

    Such as ``permuted: 0.02 [-0.21, 0.24], 0 of 100 would hold`` (median, 5 and 95 % quantile of
    the draws) or ``printed number: tolerance 10 % of the way to a random answer, 0.25``.
    """
    claim, outcome = verdict.claim, verdict.null
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


def brief(row: ClaimRow) -> str:
    """One line of the summary: statement, number and what is allowed, and a link to the row."""
    return _said(row, f"{CLAIMS}/{address(row.verdict.claim)}")


def briefest(row: ClaimRow) -> str:
    """One line of the summary: verdict and number, and a link to the row."""
    claim, verdict, estimate, *_ = row.verdict
    number = "" if estimate is None else f": {measured_text(estimate)}"
    return f"[`{claim.id}`]({CLAIMS}/{address(claim)}) {_marked(verdict)}{number}"


def here_text(here: Here) -> str:
    """One word, the number measured here with its n, and how far it is apart or why there is none.

    Such as ``differs: 0.31 [0.28, 0.34], n = 5; apart 3.1 times what both intervals allow``.
    """
    estimate = here.estimate
    number = "" if estimate is None else f"{measured_text(estimate)}, n = {estimate.n}"
    said = "; ".join(filter(None, [number, here.told]))
    return f"{here.word}: {said}" if said else here.word


def _here(row: ClaimRow) -> str:
    if row.here is None:
        return "-"
    text = here_text(row.here)
    if row.here.word != AGREES:
        text = text.replace(row.here.word, f"**{row.here.word}**", 1)
    return f"{text} · [run]({row.made})" if row.made else text


def place(row: ClaimRow) -> str:
    """What a link to a claim leads to."""
    return f'<a id="{anchor(row.verdict.claim.id)}"></a>'


def table(rows: Sequence[ClaimRow]) -> str:
    """One row for each claim; what is allowed, and why, is in the row's own fold."""
    columns = (*_COLUMNS, _HERE) if any(row.here for row in rows) else _COLUMNS
    parts = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    for row in rows:
        claim, verdict, estimate, *_ = row.verdict
        cells = [
            f"{place(row)}`{claim.id}` {claim.statement}{_fold(row)}",
            claim.printed or "-",
            measured_text(estimate),
            null_text(row.verdict),
            "-" if estimate is None else str(estimate.n),
            _marked(verdict),
            f"[{row.experiment}]({row.figure}) · [{row.run}]({row.link}) · [code]({row.code})"
            f"{f' **{row.outdated}**' if row.outdated else ''}",
        ]
        if _HERE in columns:
            cells.append(_here(row))
        parts.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(parts)


def explanations(rows: Sequence[ClaimRow]) -> str:
    """One item for each claim of the page, with what may be the cause."""
    items = []
    for row in rows:
        claim, verdict, _, reason, _ = row.verdict
        statement = _said(row, f"#{anchor(claim.id)}")
        if verdict == HOLDS:
            items.append(f"- {statement} ({cell(claim.source)})")
            continue
        said = f" Printed: {_sentence(claim.printed)}" if claim.printed else ""
        cause = _sentence(reason or "none yet")
        if not cause.lower().startswith("tested"):  # a test is no hypothesis, and says so itself
            guess = verdict == FAILS or claim.explanation == reason
            cause = f"{'Hypothesis' if guess else 'Reason'}: {cause}"
        items.append(f"- **{verdict}**: {statement}.{said} {cause}")
    return "\n".join(items)


def grouped(rows: Sequence[ClaimRow]) -> str:
    """One item for each reason, with all claims that it keeps from a verdict."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        name = row.verdict.claim.id
        reasons.setdefault(cell(row.verdict.reason), []).append(f"[`{name}`](#{anchor(name)})")
    return "\n".join(f"- {', '.join(names)}: {reason}" for reason, names in reasons.items())


def _marked(verdict: str) -> str:
    return verdict if verdict == HOLDS else f"**{verdict}**"


def _sentence(text: str) -> str:
    """A text on one line that ends with one dot."""
    return f"{cell(text).removesuffix('.')}."


def _said(row: ClaimRow, link: str) -> str:
    claim, _, estimate, *_ = row.verdict
    number = f"{measured_text(estimate)}, allowed {claim.expected.text}"
    return f"[`{claim.id}`]({link}) {cell(claim.statement)}: {cell(number)}"


def _fold(row: ClaimRow) -> str:
    claim, _, estimate, *_ = row.verdict
    source = f'<a href="{claim.link}">{claim.source}</a>' if claim.link else claim.source
    facts = [
        f"<b>source</b> {source}",
        f"<b>because</b> {claim.why}",
        f"<b>selection</b> {claim.selection}",
        f"<b>planned n</b> {claim.n}",
        f"<b>scale</b> {row.scale}",
    ]
    if estimate is not None:
        facts.insert(3, f"<b>interval</b> {estimate.method}")
    if claim.null is not None:
        facts.insert(3, f"<b>null</b> {claim.null.kind}: {claim.null.how}")
    if row.verdict.verdict == HOLDS and claim.explanation:
        facts.append(f"<b>about it</b> {claim.explanation}")
    return f"<details><summary>{claim.expected.text}</summary>{'<br>'.join(facts)}</details>"
