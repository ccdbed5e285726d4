"""The pages of claims: a summary with a line for each, and for each paper a page in detail."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from circuitax.records.claim_sections import SECTIONS, TITLES, Section, section_of
from circuitax.records.claim_texts import (
    NOT_DECLARED,
    ClaimRow,
    cell,
    counts_text,
    null_text,
)
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
    SettledClaim,
)
from circuitax.records.nulls import BY_PROOF, DRAWN, OFF_RECORD, PRINTED_NUMBER
from circuitax.records.templates import render

_DISAGREEING = {FAILS, UNDECIDED, WOULD_HOLD, ABSENT}


def render_claims_page(
    rows: Sequence[ClaimRow],
    command: str,
    *,
    moves: Mapping[str, Sequence[str]] | None = None,
    headlines: str = "",
    here: str = "",
) -> str:
    """The summary as Markdown, with a place for every claim.

    Args:
        rows: Every verdict of every run shown.
        command: Command that makes the page.
        moves: Verdicts of each claim that moved, the oldest first.
        headlines: Table of the papers' headline statements and how each fared, as Markdown.
        here: How many published statements agree with what was measured on this machine.

    Raises:
        ValueError: If two experiments make a claim of one id.
    """
    ids = Counter(row.settled.claim.id for row in rows)
    twice = sorted(name for name, n in ids.items() if n > 1)
    if twice:
        raise ValueError(f"claim ids {twice} are used twice, each must be unique")
    published = _of(rows, PUBLISHED)
    numbers, relations = _by_kind(published)
    wrong = [row for row in rows if _wrong_in_papers(row)]
    unreached = [row for row in rows if row.settled.verdict == NOT_RUN]
    rest = [
        row
        for row in rows
        if row not in wrong and (row.settled.claim.origin != PUBLISHED or row in unreached)
    ]
    reasons: dict[str, list[str]] = {}
    for row in unreached:
        reasons.setdefault(cell(row.settled.reason), []).append(row.settled.claim.id)
    return render(
        "CLAIMS.md",
        command=command,
        headline=headline(rows, moves or {}),
        here=here,
        published={
            verdict: [row for row in published if row.settled.verdict == verdict]
            for verdict in VERDICTS
        },
        classes={
            "published numbers": numbers,
            "published relations": relations,
            "our corrections of sources": _of(rows, CORRECTION),
            "our own statements and reference numbers": _of(rows, OURS),
            "theorems and identities, true by proof": _of(rows, THEOREM),
        },
        wrong=wrong,
        n_corrections=len(_of(wrong, CORRECTION)),
        reasons=reasons,
        sections=_by_section(rows),
        rest=_by_section(rest),
        headlines=headlines,
    )


def render_details(rows: Sequence[ClaimRow]) -> dict[str, str]:
    """The pages in detail as Markdown, by name; a page without a claim is left out.

    Args:
        rows: Every verdict of every run shown, with addresses relative to the pages' folder.
    """
    pages = {}
    for name, title in TITLES.items():
        sections = {s: chosen for s, chosen in _by_section(rows).items() if s.page == name}
        if sections:
            disagreed = [row for chosen in sections.values() for row in chosen if _disagrees(row)]
            pages[name] = render("paper.md", title=title, sections=sections, disagreed=disagreed)
    return pages


def render_tables(
    changes: str, earlier: str, settings: str, pilots: str, runs: str
) -> dict[str, str]:
    """The pages beside the claims that are a table or two, as Markdown, by name.

    Args:
        changes: The later of the changes that were made to claims, as Markdown; so are the others.
        earlier: Those before.
        settings: Settings that changed after a verdict.
        pilots: What was seen before claims were fixed.
        runs: The code that computed each run.
    """
    return {
        "changes": render("changes.md", changes=changes),
        "earlier-changes": render("earlier-changes.md", changes=earlier),
        "settings": render("settings.md", settings=settings, pilots=pilots),
        "code": render("code.md", runs=runs),
    }


def published_counts(rows: Sequence[ClaimRow]) -> list[str]:
    """Counts of verdicts on published statements, numbers and relations apart, a sentence each."""
    texts = []
    for kind, chosen in zip(("number", "relation"), _by_kind(_of(rows, PUBLISHED)), strict=True):
        counts = counts_text([row.settled.verdict for row in chosen])
        texts.append(f"Of {len(chosen)} published {kind}s: {counts or 'none'}.")
    return texts


def headline(rows: Sequence[ClaimRow], moves: Mapping[str, Sequence[str]]) -> str:
    """The `published_counts`, how those that hold fare beside their nulls, and how many moved."""
    texts = published_counts(rows)
    published = [row.settled for row in _of(rows, PUBLISHED)]
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


def _beside(held: Sequence[SettledClaim]) -> str:
    """Counts of nulls beside the claims that hold."""
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


def _of(rows: Iterable[ClaimRow], origin: str) -> list[ClaimRow]:
    return [row for row in rows if row.settled.claim.origin == origin]


def _by_kind(rows: Iterable[ClaimRow]) -> tuple[list[ClaimRow], list[ClaimRow]]:
    """Numbers, and relations with identities."""
    numbers: list[ClaimRow] = []
    relations: list[ClaimRow] = []
    for row in rows:
        (numbers if row.settled.claim.kind == "number" else relations).append(row)
    return numbers, relations


def _by_section(rows: Sequence[ClaimRow]) -> dict[Section, list[ClaimRow]]:
    """The rows by the table that they stand in, in the order of the pages; none is empty."""
    groups = {s: [row for row in rows if section_of(row.settled.claim) == s] for s in SECTIONS}
    return {section: chosen for section, chosen in groups.items() if chosen}


def _disagrees(row: ClaimRow) -> bool:
    return row.settled.verdict in _DISAGREEING or (
        row.settled.claim.origin == CORRECTION and row.settled.verdict == HOLDS
    )


def _wrong_in_papers(row: ClaimRow) -> bool:
    """Whether a claim is a correction that holds, or a printed formula that fails exactly."""
    claim, verdict, estimate, *_ = row.settled
    if claim.origin == CORRECTION:
        return verdict == HOLDS
    computed = estimate is not None and estimate.method == "exact"
    return claim.origin == PUBLISHED and verdict == FAILS and computed
