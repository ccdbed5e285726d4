"""The pages of claims in detail: every claim in its paper's table, and why we disagree."""

from collections.abc import Sequence

from circuitax.records import claims_table
from circuitax.records.claim_sections import SECTIONS, TITLES, section_of
from circuitax.records.claims import ABSENT, CORRECTION, FAILS, HOLDS, UNDECIDED, WOULD_HOLD
from circuitax.records.claims_table import ClaimRow, cell

_DISAGREEING = {FAILS, UNDECIDED, WOULD_HOLD, ABSENT}
_CHANGES = """\
# Changes of claims

Changes of claims and of settings since they were first accepted, and pilots that were looked at
before that. What claims
say now is on the [summary](../CLAIMS.md).

## Changes

The newest first. Commits are those of the repository.

{changes}

## Settings

Settings of an accepted run that are not those of the accepted run before. The newest first.

{settings}

## Pilots

Runs that were looked at before claims were fixed. Root key and commit are given as far as they were
recorded.

{pilots}
"""


def render_details(rows: Sequence[ClaimRow]) -> dict[str, str]:
    """The pages as Markdown, by name; a page without a claim is left out.

    Args:
        rows: Every verdict of every run shown, with addresses relative to the pages' folder.
    """
    pages = {name: _page(name, rows) for name in TITLES}
    return {name: page for name, page in pages.items() if page}


def render_changes(changes: str, settings: str, pilots: str) -> str:
    """The page of changes as Markdown.

    Args:
        changes: Table of changes that were made to claims, as Markdown.
        settings: Table of settings that changed after a verdict, as Markdown.
        pilots: Table of what was seen before claims were fixed, as Markdown.
    """
    return _CHANGES.format(changes=changes, settings=settings, pilots=pilots)


def _page(name: str, rows: Sequence[ClaimRow]) -> str:
    parts, disagreed = [], []
    for section in SECTIONS:
        chosen = [row for row in rows if section_of(row.verdict.claim) == section]
        if section.page == name and chosen:
            parts.append(f"## {cell(section.title)}\n\n{claims_table.table(chosen)}\n")
            disagreed += [row for row in chosen if _disagrees(row)]
    if not parts:
        return ""
    head = f"# {TITLES[name]}\n\nAll claims, with counts and lists: [summary](../CLAIMS.md)."
    if disagreed:
        head += " Explanations: [where we disagree](#where-we-disagree)."
        parts.append(f"## Where we disagree\n\n{claims_table.explanations(disagreed)}\n")
    return "\n".join([f"{head}\n", *parts])


def _disagrees(row: ClaimRow) -> bool:
    return row.verdict.verdict in _DISAGREEING or (
        row.verdict.claim.origin == CORRECTION and row.verdict.verdict == HOLDS
    )
