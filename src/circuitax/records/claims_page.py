"""The claims page: counts by verdict, then every claim in its paper's table."""

import re
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
**undecided** in between, or when it has fewer replicates than planned. It is **absent** when its
precondition is not met, and **not run** when what would settle it is not at hand. What is allowed,
n and the selection rule were committed before the run that is judged, but where a row or the table
of [changes](#changes-of-claims) says otherwise. n counts independent units. E1, E2 and so on are
rows of the [errata](../docs/errata.md); F1, O1, T1, S0.1 and so on are rows of the
[acceptance tables](../docs/acceptance.md).

{headline}

{digest}

{counts}
"""
_PUBLISHED = "of what is published"
# How the first screen tells each verdict, and the section that lists what is published of it.
_LISTS = {
    HOLDS: ("Holds", f"What holds, {_PUBLISHED}"),
    FAILS: ("Fails", f"What fails, {_PUBLISHED}"),
    UNDECIDED: ("Undecided", f"What is undecided, {_PUBLISHED}"),
    ABSENT: ("Precondition absent", f"What lacks its precondition, {_PUBLISHED}"),
    NOT_RUN: ("Not run", "Why claims were not run"),
}
# Below the title of a list, what its claims have in common.
_ABOUT = {
    ABSENT: "What the claim speaks of is not there in the trained models: it did not form, or "
    'it formed everywhere and left nothing to hold it against. "Where we disagree" has the reason '
    "of each.\n\n",
}
_WRONG = "What we think is wrong in the papers"
_DISAGREE = "Where we disagree"
_CHANGES = "Changes of claims"
_RUNS = "Which code computed what"


class _Class(NamedTuple):
    """A row of the table of counts: its class of claims, and the description of the class."""

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
    rows: Sequence[ClaimRow],
    command: str,
    *,
    headlines: str = "",
    changes: str = "",
    pilots: str = "",
    runs: str = "",
) -> str:
    """The page as Markdown.

    Args:
        rows: Every verdict of every run shown.
        command: Command that makes the page.
        headlines: Table of the papers' headline statements and how each fared, as Markdown.
        changes: Table of changes that were made to claims, as Markdown.
        pilots: Table of what was seen before claims were fixed, as Markdown.
        runs: Table of the code that computed each run, as Markdown.

    Raises:
        ValueError: If two experiments make a claim of one id.
    """
    ids = [row.verdict.claim.id for row in rows]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"claim ids {twice} are used twice, each must be unique")
    top = _HEAD.format(
        command=command, headline=headline(rows), digest=_digest(rows), counts=_counts(rows)
    )
    parts = [top]
    published = [row for row in rows if row.verdict.claim.origin == PUBLISHED]
    for verdict in (FAILS, UNDECIDED, ABSENT):
        chosen = [row for row in published if row.verdict.verdict == verdict]
        if chosen:
            about = f"{_ABOUT.get(verdict, '')}{claims_table.lines(chosen)}"
            parts.append(f"## {_LISTS[verdict][1]}\n\n{about}\n")
    wrong = [row for row in rows if _wrong_in_papers(row)]
    if wrong:
        parts.append(
            f"## {_WRONG}\n\nA statement is either a correction of ours "
            f"that holds, or a printed one that fails.\n\n{claims_table.lines(wrong)}\n"
        )
    holding = [row for row in published if row.verdict.verdict == HOLDS]
    if holding:
        title = f"{len(holding)} published statements, a line each"
        parts.append(
            f"## {_LISTS[HOLDS][1]}\n\n<details><summary>{title}</summary>\n\n"
            f"{claims_table.lines(holding)}\n\n</details>\n"
        )
    if headlines:
        parts.append(f"## Figures and results of the papers\n\n{headlines}\n")
    parts += [f"## {title}\n\n{claims_table.table(part)}\n" for title, part in _sections(rows)]
    disagreed = [row for row in rows if _disagrees(row)]
    if disagreed:
        parts.append(f"## {_DISAGREE}\n\n{claims_table.explanations(disagreed)}\n")
    unreached = [row for row in rows if row.verdict.verdict == NOT_RUN]
    if unreached:
        parts.append(f"## {_LISTS[NOT_RUN][1]}\n\n{claims_table.grouped(unreached)}\n")
    if runs:
        parts.append(f"## {_RUNS}\n\n{runs}\n")
    if changes:
        parts.append(f"## {_CHANGES}\n\n{changes}\n")
    if pilots:
        parts.append(
            "## Pilots\n\nRuns that were looked at before claims were fixed. Root key and commit "
            f"are given as far as they were recorded.\n\n{pilots}\n"
        )
    return "\n".join(parts)


def headline(rows: Sequence[ClaimRow]) -> str:
    """Outcomes of the published statements that could have failed, numbers and relations apart."""
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
    """Counts of the verdicts, such as ``"3 hold, 1 undecided"``."""
    words = {HOLDS: "hold", FAILS: "fail"}
    return ", ".join(
        f"{verdicts.count(name)} {words.get(name, name)}" for name in VERDICTS if name in verdicts
    )


def _digest(rows: Sequence[ClaimRow]) -> str:
    """A line for each verdict on published statements, for slips of papers and for each paper."""
    published = [row for row in rows if row.verdict.claim.origin == PUBLISHED]
    items = []
    for verdict, (word, title) in _LISTS.items():
        found = [row for row in published if row.verdict.verdict == verdict]
        if not found:
            continue
        numbers = sum(row.verdict.claim.kind == "number" for row in found)
        count = _linked(f"{len(found)} of {len(published)} published statements", title)
        items.append(f"**{word}**: {count}, {numbers} numbers and {len(found) - numbers} relations")
    wrong = [row for row in rows if _wrong_in_papers(row)]
    if wrong:
        corrections = sum(row.verdict.claim.origin == CORRECTION for row in wrong)
        items.append(
            f"**{_linked('Wrong in the papers, we think', _WRONG)}**: {corrections} corrections of "
            f"ours that hold, and {len(wrong) - corrections} printed statements that fail without "
            "any sampling"
        )
    papers_told = [
        f"{_linked(title, title)} {counts_text([row.verdict.verdict for row in part])}"
        for title, part in _sections(published)
    ]
    if papers_told:
        items.append(f"**By paper**: {'; '.join(papers_told)}")
    return "\n".join(f"- {item}." for item in items)


def _linked(text: str, title: str) -> str:
    """A text linked to the section of a title."""
    slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    return f"[{text}](#{slug})"


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
    """One table for each paper, then other published statements, then our own."""
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
