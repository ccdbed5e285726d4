"""The report: results and figures in one self-contained HTML file."""

from collections.abc import Mapping, Sequence

from circuitax.records.gallery import GalleryItem, by_chapter
from circuitax.records.landing import Shown, scene_data
from circuitax.records.ledger import headline
from circuitax.records.rule import WORDS
from circuitax.records.templates import render

# Rows of the table that are shown before "show all".
FIRST_ROWS = 25


def render_report(
    items: Sequence[GalleryItem],
    pictures: Mapping[str, str],
    missing: Sequence[str],
    command: str,
    docs: str,
    scenes: Sequence[Shown],
    agreement: str = "",
) -> str:
    """The page as HTML, with its style and its script inside.

    Args:
        items: Runs in any order.
        pictures: The figures as ``data:`` addresses, by their ``png``; a figure that is not among
            them is named with a link.
        missing: Experiments without a run.
        command: Command that makes the page.
        docs: Address of ``docs/``, relative to the page.
        scenes: Pictures that move, for its head.
        agreement: How much of it was computed here, and agrees; empty where nothing was.
    """
    chapters = by_chapter(items)
    rows = [(row, item) for group in chapters.values() for item in group for row in item.rows]
    return render(
        "report.html",
        command=command,
        headline=headline([row for row, _ in rows]),
        missing=missing,
        chapters=chapters,
        main={chapter: _main(group) for chapter, group in chapters.items()},
        rows=rows,
        papers=list(dict.fromkeys(row.row.paper for row, _ in rows)),
        words=WORDS,
        first=FIRST_ROWS,
        agreement=agreement,
        pictures=pictures,
        scenes=scenes,
        data=scene_data(scenes),
        docs=docs + "/",
    )


def _main(items: Sequence[GalleryItem]) -> GalleryItem:
    """Whose figure opens a chapter: the flagship, else the first that a paper asks for."""
    published = [any(row.row.published for row in item.rows) for item in items]
    ranked = sorted(zip(items, published, strict=True), key=lambda p: (not p[0].flagship, not p[1]))
    return ranked[0][0]
