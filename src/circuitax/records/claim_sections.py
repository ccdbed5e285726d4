"""Place of a claim in detail: a section for each paper, and for what no paper says."""

import re
from typing import NamedTuple

from circuitax.records import papers
from circuitax.records.claims import CORRECTION, OURS, THEOREM, Claim


class Section(NamedTuple):
    """A table of claims.

    Attributes:
        page: Name of its page, the file without its suffix.
        title: Its heading.
    """

    page: str
    title: str


_OF_PAPERS = {
    link: Section(page, papers.TITLES[link])
    for link, page in (
        (papers.FRAMEWORK, "framework"),
        (papers.INDUCTION, "induction-heads"),
        (papers.TOY_MODELS, "toy-models"),
        (papers.STRUCTURES, "sources"),
    )
}
_OTHER = Section("sources", "Other papers")
_UNPUBLISHED = {
    CORRECTION: Section("corrections-and-theorems", "Our corrections of sources"),
    THEOREM: Section("corrections-and-theorems", "Theorems and identities"),
    OURS: Section("ours", "Our own statements"),
}
_BESIDE = Section("ours-beside", "Our own statements beside those of papers")
_NUMBERS = Section("ours-numbers", "Our own reference numbers")
SECTIONS = (*_OF_PAPERS.values(), _OTHER, *_UNPUBLISHED.values(), _BESIDE, _NUMBERS)
TITLES = {
    "framework": "Claims of the framework paper",
    "induction-heads": "Claims of the induction-heads paper",
    "toy-models": "Claims of the toy-models paper",
    "sources": "Claims of S0 and of other papers",
    "corrections-and-theorems": "Our corrections of sources, and theorems",
    "ours": "Our own statements",
    "ours-beside": "Our own statements beside those of papers",
    "ours-numbers": "Our own reference numbers",
}


def section_of(claim: Claim) -> Section:
    """The section of a claim: by origin, of a published one the paper of its link.

    Statements of ours that cite a paper stand apart from those that cite none.
    """
    if claim.origin == OURS and claim.kind == "number":
        return _NUMBERS
    if claim.origin == OURS and claim.cites:
        return _BESIDE
    if claim.origin in _UNPUBLISHED:
        return _UNPUBLISHED[claim.origin]
    found = (section for link, section in _OF_PAPERS.items() if claim.link.startswith(link))
    return next(found, _OTHER)


def anchor(claim: str) -> str:
    """Name of a claim's place on every page that has it: the same in every version."""
    return f"claim-{claim}"


def address(claim: Claim) -> str:
    """Address of a claim's row, seen from the folder of the pages in detail."""
    return f"{section_of(claim).page}.md#{anchor(claim.id)}"


def slug(title: str) -> str:
    """The name that a page gives to the section of a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
