"""Claims as Markdown: one line each, rows of a table, and explanations."""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.claims import FAILS, HOLDS, Verdict
from circuitax.records.estimate import Estimate

_COLUMNS = "claim", "printed", "ours", "n", "verdict", "figure", "run"


class ClaimRow(NamedTuple):
    """A verdict and its run; addresses are relative to the page.

    Attributes:
        verdict: Claim, measured value, verdict and reason.
        experiment: Name of the experiment.
        scale: Scale of the run.
        run: Identity of the run.
        link: Address of the run's folder.
        figure: Address of its figure, or of its figures in the gallery.
        code: Address of the line that measures the claim.
        outdated: That the present code gives other numbers, in words; empty where it does not.
    """

    verdict: Verdict
    experiment: str
    scale: str
    run: str
    link: str
    figure: str
    code: str
    outdated: str = ""


def cell(text: str) -> str:
    """A text on one line, its bars escaped for a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def anchor(claim: str) -> str:
    """Anchor of a claim on the claims page and in the report: the same name in every version."""
    return f"claim-{claim}"


def measured_text(estimate: Estimate | None) -> str:
    """A value with its interval, such as ``0.752 [0.741, 0.763]``."""
    if estimate is None:
        return "-"
    value = f"{estimate.value:.4g}"
    if estimate.low == estimate.high == estimate.value:
        return value
    return f"{value} [{estimate.low:.4g}, {estimate.high:.4g}]"


def lines(rows: Sequence[ClaimRow]) -> str:
    """One line for each claim, with the number and links to its row and its figure."""
    return "\n".join(f"- {_short(row)}" for row in rows)


def table(rows: Sequence[ClaimRow]) -> str:
    """One row for each claim; the expected interval and its reason are in the row's own fold."""
    parts = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    for row in rows:
        claim, verdict, estimate, _ = row.verdict
        cells = (
            f'<a id="{anchor(claim.id)}"></a>`{claim.id}` {claim.statement}{_fold(row)}',
            claim.printed or "-",
            measured_text(estimate),
            "-" if estimate is None else str(estimate.n),
            verdict if verdict == HOLDS else f"**{verdict}**",
            f"[{row.experiment}]({row.figure})",
            f"[{row.run}]({row.link}){f' **{row.outdated}**' if row.outdated else ''}",
        )
        parts.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(parts)


def explanations(rows: Sequence[ClaimRow]) -> str:
    """One item for each claim, with its possible cause."""
    items = []
    for row in rows:
        claim, verdict, _, reason = row.verdict
        if verdict == HOLDS:
            items.append(f"- {_short(row)} ({cell(claim.source)})")
            continue
        said = f" Printed: {_sentence(claim.printed)}" if claim.printed else ""
        cause = _sentence(reason or "none yet")
        if not cause.lower().startswith("tested"):  # a test is no hypothesis, and says so itself
            guess = verdict == FAILS or claim.explanation == reason
            cause = f"{'Hypothesis' if guess else 'Reason'}: {cause}"
        items.append(f"- **{verdict}**: {_short(row)}.{said} {cause}")
    return "\n".join(items)


def grouped(rows: Sequence[ClaimRow]) -> str:
    """One item for each reason, with all claims left undecided by it."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(cell(row.verdict.reason), []).append(f"`{row.verdict.claim.id}`")
    return "\n".join(f"- {', '.join(ids)}: {reason}" for reason, ids in reasons.items())


def _sentence(text: str) -> str:
    """A text on one line that ends with one dot."""
    return f"{cell(text).removesuffix('.')}."


def _short(row: ClaimRow) -> str:
    claim, _, estimate, _ = row.verdict
    number = f"{measured_text(estimate)}, allowed {claim.expected.text}"
    link = f"[`{claim.id}`](#{anchor(claim.id)})"
    return f"{link} {cell(claim.statement)}: {cell(number)} ([figure]({row.figure}))"


def _fold(row: ClaimRow) -> str:
    claim, _, estimate, _ = row.verdict
    source = f'<a href="{claim.link}">{claim.source}</a>' if claim.link else claim.source
    facts = [
        f"<b>source</b> {source}",
        f"<b>allowed</b> {claim.expected.text}, because: {claim.why}",
        f"<b>selection</b> {claim.selection}",
        f"<b>planned n</b> {claim.n}",
        f"<b>scale</b> {row.scale}",
        f'<b>code</b> <a href="{row.code}">{row.experiment}</a>',
    ]
    if estimate is not None:
        facts.insert(3, f"<b>interval</b> {estimate.method}")
    return f"<details><summary>{claim.expected.text}</summary>{'<br>'.join(facts)}</details>"
