"""The claims page: every published statement with what was measured and the verdict."""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.claims import ABSENT, FAILS, HOLDS, NOT_RUN, UNDECIDED, VERDICTS, Verdict
from circuitax.records.estimate import Estimate


class ClaimRow(NamedTuple):
    """A verdict and the run that gave it.

    Attributes:
        verdict: Claim, measured value, verdict and reason.
        experiment: Name of the experiment.
        scale: Scale of the run.
        run: Identity of the run.
        link: Address of the run's folder, relative to the page.
    """

    verdict: Verdict
    experiment: str
    scale: str
    run: str
    link: str


_HEAD = """\
# Claims

Every published statement that the experiments reproduce, made from the runs by
`{command}`. Expected values, tolerances, n and selection rules were committed
before the run that is judged; where a threshold came from a pilot with another root key, or a claim
was reworded after an earlier run, it is judged on a seed that nobody had looked at, or its reason
says so. n counts independent initialisation and data keys.

{headline}
"""
_COLUMNS = "id", "source", "claim", "expected", "measured", "n", "verdict", "scale", "run"


def render_claims_page(rows: Sequence[ClaimRow], command: str) -> str:
    """The page as Markdown.

    Args:
        rows: Every verdict of every run shown.
        command: Command that makes the page.

    Raises:
        ValueError: If two experiments make a claim of one id.
    """
    ids = [row.verdict.claim.id for row in rows]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"claim ids {twice} are used twice, each must be unique")
    parts = [_HEAD.format(command=command, headline=headline(rows))]
    published = [row for row in rows if row.verdict.claim.kind != "identity"]
    identities = [row for row in rows if row.verdict.claim.kind == "identity"]
    for title, part in (("Published results", published), ("Identities", identities)):
        if part:
            parts.append(f"## {title}\n\n{_table(part)}\n")
    failing = [row for row in rows if row.verdict.verdict == FAILS]
    if failing:
        parts.append("## Why the failing claims fail\n\n" + _explanations(failing) + "\n")
    undecided = [row for row in rows if row.verdict.verdict in {UNDECIDED, ABSENT}]
    if undecided:
        parts.append("## Why claims are undecided or absent\n\n" + _explanations(undecided) + "\n")
    unreached = [row for row in rows if row.verdict.verdict == NOT_RUN]
    if unreached:
        parts.append("## Why claims were not run\n\n" + _grouped(unreached) + "\n")
    if rows:
        parts.append(f"## Tolerances and selection\n\n{_reasons(rows)}\n")
    return "\n".join(parts)


def headline(rows: Sequence[ClaimRow]) -> str:
    """The counts of verdicts; identities, which cannot fail, are counted apart."""
    published = [row.verdict.verdict for row in rows if row.verdict.claim.kind != "identity"]
    identities = [row.verdict.verdict for row in rows if row.verdict.claim.kind == "identity"]
    text = f"**Of {len(published)} claims: {counts_text(published)}.**"
    if identities:
        text += (
            f" Not counted: {len(identities)} identities, of which {identities.count(HOLDS)} hold."
        )
    return text


def counts_text(verdicts: Sequence[str]) -> str:
    """How often each verdict was given, such as ``"3 hold, 1 undecided"``."""
    words = {HOLDS: "hold", FAILS: "fail"}
    return ", ".join(
        f"{verdicts.count(name)} {words.get(name, name)}" for name in VERDICTS if name in verdicts
    )


def measured_text(estimate: Estimate | None) -> str:
    """A value with its interval, such as ``0.752 [0.741, 0.763]``."""
    if estimate is None:
        return "-"
    value = f"{estimate.value:.4g}"
    if estimate.low == estimate.high == estimate.value:
        return value
    return f"{value} [{estimate.low:.4g}, {estimate.high:.4g}]"


def _table(rows: Sequence[ClaimRow]) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    for row in rows:
        claim, estimate = row.verdict.claim, row.verdict.estimate
        cells = (
            f"`{claim.id}`",
            claim.source,
            claim.statement,
            claim.expected.text,
            measured_text(estimate),
            "-" if estimate is None else str(estimate.n),
            f"**{row.verdict.verdict}**" if row.verdict.verdict == FAILS else row.verdict.verdict,
            row.scale,
            f"[{row.experiment}/{row.run}]({row.link})",
        )
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _explanations(rows: Sequence[ClaimRow]) -> str:
    items = []
    for row in rows:
        reason = row.verdict.reason or "no explanation yet."
        items.append(f"- `{row.verdict.claim.id}`: {_cell(reason)}")
    return "\n".join(items)


def _grouped(rows: Sequence[ClaimRow]) -> str:
    """One item for each reason, with all claims that it keeps from a verdict."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        reasons.setdefault(_cell(row.verdict.reason), []).append(f"`{row.verdict.claim.id}`")
    return "\n".join(f"- {', '.join(ids)}: {reason}" for reason, ids in reasons.items())


def _reasons(rows: Sequence[ClaimRow]) -> str:
    lines = ["| id | why this tolerance | selection | interval | planned n |"]
    lines.append("|" + " --- |" * 5)
    for row in rows:
        claim, estimate = row.verdict.claim, row.verdict.estimate
        method = "-" if estimate is None else estimate.method
        cells = (f"`{claim.id}`", claim.why, claim.selection, method, str(claim.n))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
