"""The report: figures, viewers and claims in one self-contained HTML file."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from circuitax.records.agreement import WORDS, Here, counts_here
from circuitax.records.claims import ORIGINS, PUBLISHED, VERDICTS
from circuitax.records.gallery import GalleryItem, by_chapter
from circuitax.records.papers import Paper
from circuitax.records.templates import render

_NO_PAPER = ("no paper",)


class Interactive(NamedTuple):
    """Viewers, as parts of the page.

    Attributes:
        sections: HTML of the viewers by experiment.
        titles: Their titles, likewise.
        missing: Why an experiment that has viewers shows none, by experiment.
        script: What draws them.
        style: Their style sheet.
    """

    sections: Mapping[str, Sequence[str]]
    titles: Mapping[str, Sequence[str]]
    missing: Mapping[str, str]
    script: str
    style: str


NONE = Interactive({}, {}, {}, "", "")


def render_report(
    items: Sequence[GalleryItem],
    pictures: Mapping[str, str],
    missing: Sequence[str],
    command: str,
    interactive: Interactive = NONE,
    here: Mapping[str, Here] | None = None,
) -> str:
    """The page as HTML, with its style and its script inside.

    Args:
        items: Runs in any order.
        pictures: The figures as ``data:`` addresses, by their ``png``; a figure that is not among
            them is named with a link.
        missing: Experiments without a run.
        command: Command that makes the page.
        interactive: Viewers; each stands in the section of its experiment.
        here: Claims as they were measured on this machine, by id; they have a column, if any.
    """
    here = here or {}
    chapters = by_chapter(items)
    rows = [(v, item) for group in chapters.values() for item in group for v in item.verdicts]
    papers = {v.claim.id: v.claim.cites or _NO_PAPER for v, _ in rows}
    published = [
        here[v.claim.id] for v, _ in rows if v.claim.id in here and v.claim.origin == PUBLISHED
    ]
    filters = {
        "paper": sorted({name for names in papers.values() for name in names}, key=_place),
        "origin": [name for name in ORIGINS if name in {v.claim.origin for v, _ in rows}],
        "verdict": [name for name in VERDICTS if name in {v.verdict for v, _ in rows}],
        "experiment": [item.experiment for group in chapters.values() for item in group],
        "here": WORDS if here else (),
    }
    return render(
        "report.html",
        command=command,
        missing=missing,
        chapters=chapters,
        rows=rows,
        papers=papers,
        filters=filters,
        here=here,
        agreement=counts_here(published),
        pictures=pictures,
        interactive=interactive,
        # These are HTML, style and script as they are.
        sections={k: [Markup(part) for part in v] for k, v in interactive.sections.items()},
        script=Markup(interactive.script),
        style=Markup(interactive.style),
    )


def _place(title: str) -> tuple[int, str]:
    """Key that orders papers as `Paper` lists them, then those that it does not list, then none."""
    order = [*Paper, *_NO_PAPER]
    return (order.index(title) if title in order else len(Paper)), title
