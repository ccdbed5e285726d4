"""The summary of claims: counts, and a line for each claim that leads to its row in detail."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from circuitax.records.chapters import CLAIMS
from circuitax.records.claim_sections import SECTIONS, section_of
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
    WOULD_HOLD,
    Verdict,
)
from circuitax.records.claims_table import (
    NOT_DECLARED,
    ClaimRow,
    brief,
    briefest,
    cell,
    grouped,
    null_text,
    place,
)
from circuitax.records.nulls import BY_PROOF, DRAWN, OFF_RECORD, PRINTED_NUMBER

_HEAD = """\
# Claims

Made from the runs by `{command}`. A claim **holds** when the whole interval of
what was measured lies inside what it allows, **fails** when the whole interval lies outside, and is
**undecided** in between, or when it has fewer replicates than planned. It **would hold anyway**
where it holds, and would in more than 5 % of the draws of its null too: untrained weights,
mismatched seeds, shuffled labels, random matrices, or data in which it is false by construction. It
holds on a **bare sign** where its limit is 0, or lies between the 5 and the 95 % quantile of what
its null gives. It is **absent** when its precondition is not met, and **not run** when what would
settle it is not at hand. What is allowed, n and the selection rule were committed before the run
that is judged, but where a row or the table of [changes](claims/changes.md) says otherwise. n
counts independent units. The id of a claim leads to its row in detail: source, reason for the
tolerance, figure, run, and the line of code that measures it. E1, E2 and so on are rows of the
[errata](../docs/errata.md); F1, O1, T1, S0.1 and so on are rows of the
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
    WOULD_HOLD: ("Would hold anyway", f"What would hold anyway, {_PUBLISHED}"),
    ABSENT: ("Precondition absent", f"What lacks its precondition, {_PUBLISHED}"),
    NOT_RUN: ("Not run", "Why claims were not run"),
}
# Below the title of a list, what its claims have in common.
_ABOUT = {
    WOULD_HOLD: "The null of the claim holds too, so that nothing follows from it.\n\n",
    ABSENT: "What the claim speaks of is not there in the trained models: it did not form, or "
    'it formed everywhere and left nothing to hold it against. "Where we disagree" on the page of '
    "a claim has the reason.\n\n",
}
_WRONG = "What we think is wrong in the papers"


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
    rows: Sequence[ClaimRow],
    command: str,
    *,
    moves: Mapping[str, Sequence[str]] | None = None,
    headlines: str = "",
    runs: str = "",
    here: str = "",
) -> str:
    """The summary as Markdown, with a place for every claim.

    Args:
        rows: Every verdict of every run shown.
        command: Command that makes the page.
        moves: Verdicts of each claim that moved, the oldest first.
        headlines: Table of the papers' headline statements and how each fared, as Markdown.
        runs: Table of the code that computed each run, as Markdown.
        here: How many published statements agree with what was measured on this machine.

    Raises:
        ValueError: If two experiments make a claim of one id.
    """
    ids = [row.verdict.claim.id for row in rows]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise ValueError(f"claim ids {twice} are used twice, each must be unique")
    top = _HEAD.format(
        command=command,
        headline="\n\n".join(filter(None, [headline(rows, moves or {}), here])),
        digest=_digest(rows),
        counts=_counts(rows),
    )
    parts = [top]
    published = [row for row in rows if row.verdict.claim.origin == PUBLISHED]
    for verdict in (FAILS, UNDECIDED, WOULD_HOLD, ABSENT):
        chosen = [row for row in published if row.verdict.verdict == verdict]
        if chosen:
            about = f"{_ABOUT.get(verdict, '')}{_lines(chosen)}"
            parts.append(f"## {_LISTS[verdict][1]}\n\n{about}\n")
    wrong = [row for row in rows if _wrong_in_papers(row)]
    failing = {row.verdict.claim.id for row in wrong if row.verdict.verdict == FAILS}
    if wrong:
        parts.append(
            f"## {_WRONG}\n\nA statement is either a correction of ours "
            f"that holds, or a printed one that fails.\n\n{_lines(wrong, failing)}\n"
        )
    holding = [row for row in published if row.verdict.verdict == HOLDS]
    if holding:
        title = f"{len(holding)} published statements, a line each"
        parts.append(f"## {_LISTS[HOLDS][1]}\n\n{_folded(title, _lines(holding, figure=False))}")
    unreached = [row for row in rows if row.verdict.verdict == NOT_RUN]
    if unreached:
        parts.append(f"## {_LISTS[NOT_RUN][1]}\n\n{grouped(unreached)}\n")
    if headlines:
        parts.append(f"## Figures and results of the papers\n\n{headlines}\n")
    if runs:
        parts.append(f"## Which code computed what\n\n{runs}\n")
    rest = [row for row in rows if row not in wrong and not _listed(row)]
    if rest:
        lines = "\n\n".join(_briefest(rest))
        parts.append(f"## All other claims\n\n{_folded(f'{len(rest)} claims', lines)}")
    return "\n".join(parts)


def _lines(rows: Sequence[ClaimRow], above: Container[str] = (), *, figure: bool = True) -> str:
    """A line for each claim, which is the claim's place on the page.

    Args:
        rows: The claims.
        above: Ids of those that have their place further up.
        figure: Whether a line leads to the figure too.
    """
    items = []
    for row in rows:
        here = "" if row.verdict.claim.id in above else place(row)
        items.append(f"- {here}{brief(row)}{f' ([figure]({row.figure}))' if figure else ''}")
    return "\n".join(items)


def _briefest(rows: Sequence[ClaimRow]) -> Iterator[str]:
    for section in SECTIONS:
        lines = [
            f"- {place(row)}{briefest(row)}"
            for row in rows
            if section_of(row.verdict.claim) == section
        ]
        if lines:
            yield f"**{cell(section.title)}**"
            yield "\n".join(lines)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>\n"


def _listed(row: ClaimRow) -> bool:
    """Whether a claim has a line in one of the lists by verdict, of what is published."""
    claim, verdict, *_ = row.verdict
    return claim.origin == PUBLISHED and verdict != NOT_RUN


def published_counts(rows: Sequence[ClaimRow]) -> list[str]:
    """How the published statements fared, numbers and relations apart, a sentence each."""
    texts = []
    for kind, number in (("number", True), ("relation", False)):
        given = [row.verdict.verdict for row in rows if _of(PUBLISHED, number=number)(row)]
        texts.append(f"Of {len(given)} published {kind}s: {counts_text(given) or 'none'}.")
    return texts


def headline(rows: Sequence[ClaimRow], moves: Mapping[str, Sequence[str]]) -> str:
    """The `published_counts`, how those that hold fare beside their nulls, and how many moved."""
    texts = published_counts(rows)
    published = [row.verdict for row in rows if row.verdict.claim.origin == PUBLISHED]
    held = [found for found in published if found.verdict == HOLDS]
    signs = [found for found in held if found.on_bare_sign]
    texts.append(f"{len(signs)} of those that hold, hold on a bare sign.")
    anyway = sum(found.verdict == WOULD_HOLD for found in published)
    texts.append(f"Of {len(held)} that hold, {_beside(held)}; {anyway} more would hold anyway.")
    moved = [verdicts for found in published if (verdicts := moves.get(found.claim.id))]
    to = sum(verdicts[-1] == HOLDS != verdicts[0] for verdicts in moved)
    away = sum(verdicts[0] == HOLDS != verdicts[-1] for verdicts in moved)
    texts.append(
        f"{len(moved)} moved after a look at a verdict: {to} came to hold, {away} hold no more."
    )
    return f"**{' '.join(texts)}**"


def _beside(held: Sequence[Verdict]) -> str:
    """How many of the claims that hold have which null beside them."""
    kinds = Counter(
        found.claim.null.kind if found.claim.null else null_text(found) for found in held
    )
    words = {
        "have a null that does not": sum(kinds[kind] for kind in DRAWN),
        "are numbers that a random answer misses": kinds[PRINTED_NUMBER],
        "are true by proof": kinds[BY_PROOF],
        "need a null that is not on record": kinds[OFF_RECORD],
        "declare none yet": kinds[NOT_DECLARED],
    }
    return ", ".join(f"{count} {word}" for word, count in words.items())


def counts_text(verdicts: Sequence[str]) -> str:
    """How often each verdict was given, such as ``"3 hold, 1 undecided"``."""
    words = {HOLDS: "hold", FAILS: "fail"}
    return ", ".join(
        f"{verdicts.count(name)} {words.get(name, name)}" for name in VERDICTS if name in verdicts
    )


def _digest(rows: Sequence[ClaimRow]) -> str:
    """A line for each verdict on what is published, for slips of papers and for each paper."""
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
    return "\n".join([f"- {item}." for item in items] + list(_tables(rows)))


def _tables(rows: Sequence[ClaimRow]) -> Iterator[str]:
    """A line for each table in detail; its place has the name that it had on one long page."""
    yield (
        '- **In detail**, by paper; <a id="where-we-disagree"></a>"Where we disagree" ends each '
        "page:"
    )
    for section in SECTIONS:
        given = [r.verdict.verdict for r in rows if section_of(r.verdict.claim) == section]
        if given:
            name = slug(section.title)
            link = f"[{cell(section.title)}]({CLAIMS}/{section.page}.md#{name})"
            yield f'    - <a id="{name}"></a>{link}: {counts_text(given)};'
    yield (
        '    - <a id="changes-of-claims"></a>[Changes of claims]'
        f"({CLAIMS}/changes.md) since they were first accepted, and pilots."
    )


def _linked(text: str, title: str) -> str:
    """A text that leads to the section of a title."""
    return f"[{text}](#{slug(title)})"


def slug(title: str) -> str:
    """The name that a page gives to the section of a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


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
    claim, verdict, estimate, *_ = row.verdict
    if claim.origin == CORRECTION:
        return verdict == HOLDS
    computed = estimate is not None and estimate.method == "exact"
    return claim.origin == PUBLISHED and verdict == FAILS and computed
