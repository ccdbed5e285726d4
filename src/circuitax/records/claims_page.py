"""The claims page: what holds, fails and is undecided, then every claim in its paper's table."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from circuitax.records import claims_table, papers
from circuitax.records.claims import (
    ABSENT,
    CORRECTION,
    FAILS,
    HOLDS,
    NOT_RUN,
    OURS,
    PUBLISHED,
    THEOREM,
    UNDECIDED,
    VERDICTS,
)
from circuitax.records.claims_table import ClaimRow, cell

_HEAD = """\
# Claims

Made from the runs by `{command}`. A claim **holds** when the whole interval of
what was measured lies inside what it allows, **fails** when the whole interval lies outside, and is
**undecided** in between. It is **absent** when what it speaks of did not form in training, and
**not run** when what would settle it is not at hand. What is allowed, n and the selection rule were
committed before the run that is judged, but where a row or the
[last table](#changes-of-claims) says otherwise. n counts independent units. E1 to E39 are rows of
the [errata](../docs/errata.md); F1, O1, T1, S0.1 and so on are rows of the
[acceptance tables](../docs/acceptance.md).

{headline}

{counts}
"""


class _Class(NamedTuple):
    """A row of the table of counts: which claims it counts, and what they are."""

    title: str
    counts: Callable[[ClaimRow], bool]


def _of(origin: str, *, number: bool | None = None) -> Callable[[ClaimRow], bool]:
    def fits(row: ClaimRow) -> bool:
        claim = row.verdict.claim
        return claim.origin == origin and number in {None, claim.kind == "number"}

    return fits


_CLASSES = (
    _Class("published numbers", _of(PUBLISHED, number=True)),
    _Class("published relations", _of(PUBLISHED, number=False)),
    _Class("our corrections of sources", _of(CORRECTION)),
    _Class("our own statements and reference numbers", _of(OURS)),
    _Class("theorems and identities, true by proof", _of(THEOREM)),
)


def render_claims_page(
    rows: Sequence[ClaimRow], command: str, *, headlines: str = "", changes: str = ""
) -> str:
    """The page as Markdown.

    Args:
        rows: Every verdict of every run shown.
        command: Command that makes the page.
        headlines: Table of the papers' headline statements and how each fared, as Markdown.
        changes: Table of changes that were made to claims, as Markdown.

    Raises:
        ValueError: If two experiments make a claim of one id.
    """
    ids = [row.verdict.claim.id for row in rows]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"claim ids {twice} are used twice, each must be unique")
    parts = [_HEAD.format(command=command, headline=headline(rows), counts=_counts(rows))]
    published = [row for row in rows if row.verdict.claim.origin == PUBLISHED]
    for title, verdict in (
        ("What fails", FAILS),
        ("What is undecided", UNDECIDED),
        ("What did not form", ABSENT),
    ):
        chosen = [row for row in published if row.verdict.verdict == verdict]
        if chosen:
            parts.append(f"## {title}, of what is published\n\n{claims_table.lines(chosen)}\n")
    wrong = [row for row in rows if _wrong_in_papers(row)]
    if wrong:
        parts.append(
            "## What we think is wrong in the papers\n\nA statement is either a correction of ours "
            f"that holds, or a printed one that fails.\n\n{claims_table.lines(wrong)}\n"
        )
    holding = [row for row in published if row.verdict.verdict == HOLDS]
    if holding:
        title = f"{len(holding)} published statements, a line each"
        parts.append(
            f"## What holds, of what is published\n\n<details><summary>{title}</summary>\n\n"
            f"{claims_table.lines(holding)}\n\n</details>\n"
        )
    if headlines:
        parts.append(f"## Figures and results of the papers\n\n{headlines}\n")
    parts += [f"## {title}\n\n{claims_table.table(part)}\n" for title, part in _sections(rows)]
    disagreed = [row for row in rows if _disagrees(row)]
    if disagreed:
        parts.append(f"## Where we disagree\n\n{claims_table.explanations(disagreed)}\n")
    unreached = [row for row in rows if row.verdict.verdict == NOT_RUN]
    if unreached:
        parts.append(f"## Why claims were not run\n\n{claims_table.grouped(unreached)}\n")
    if changes:
        parts.append(f"## Changes of claims\n\n{changes}\n")
    return "\n".join(parts)


def headline(rows: Sequence[ClaimRow]) -> str:
    """How the published statements that could have failed fared, numbers and relations apart."""
    texts = []
    for kind, number in (("number", True), ("relation", False)):
        given = [row.verdict.verdict for row in rows if _of(PUBLISHED, number=number)(row)]
        texts.append(f"Of {len(given)} published {kind}s: {counts_text(given) or 'none'}.")
    held = [row.verdict for row in rows if row.verdict.verdict == HOLDS]
    signs = [
        found for found in held if found.claim.origin == PUBLISHED and 0 in found.claim.expected[:2]
    ]
    texts.append(f"{len(signs)} of those that hold, hold on a bare sign.")
    return f"**{' '.join(texts)}**"


def counts_text(verdicts: Sequence[str]) -> str:
    """How often each verdict was given, such as ``"3 hold, 1 undecided"``."""
    words = {HOLDS: "hold", FAILS: "fail"}
    return ", ".join(
        f"{verdicts.count(name)} {words.get(name, name)}" for name in VERDICTS if name in verdicts
    )


def _counts(rows: Sequence[ClaimRow]) -> str:
    head = "| class | claims | " + " | ".join(VERDICTS) + " |"
    table = [head, "|" + " --- |" * (2 + len(VERDICTS))]
    for title, counts in _CLASSES:
        given = [row.verdict.verdict for row in rows if counts(row)]
        cells = [str(given.count(name)) for name in VERDICTS]
        table.append(f"| {title} | {len(given)} | {' | '.join(cells)} |")
    return "\n".join(table)


def _wrong_in_papers(row: ClaimRow) -> bool:
    """Corrections that hold, and printed formulas that fail without any training."""
    claim, verdict, estimate, _ = row.verdict
    if claim.origin == CORRECTION:
        return verdict == HOLDS
    computed = estimate is not None and estimate.method == "exact"
    return claim.origin == PUBLISHED and verdict == FAILS and computed


def _disagrees(row: ClaimRow) -> bool:
    return row.verdict.verdict in {FAILS, UNDECIDED, ABSENT} or (
        row.verdict.claim.origin == CORRECTION and row.verdict.verdict == HOLDS
    )


def _sections(rows: Sequence[ClaimRow]) -> list[tuple[str, list[ClaimRow]]]:
    """One table for each paper, then what is published elsewhere, then what no paper says."""
    published = [row for row in rows if row.verdict.claim.origin == PUBLISHED]
    parts = [
        (cell(title), [row for row in published if row.verdict.claim.link.startswith(link)])
        for link, title in papers.TITLES.items()
    ]
    known = tuple(papers.TITLES)
    rest = [row for row in published if not row.verdict.claim.link.startswith(known)]
    parts.append(("Other papers", rest))
    for title, origin in (
        ("Our corrections of sources", CORRECTION),
        ("Our own statements and reference numbers", OURS),
        ("Theorems and identities", THEOREM),
    ):
        parts.append((title, [row for row in rows if row.verdict.claim.origin == origin]))
    return [(title, part) for title, part in parts if part]
