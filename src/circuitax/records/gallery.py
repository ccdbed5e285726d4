"""The gallery: an index, and a page for each chapter with the figures of its experiments.

The report has results and figures in one self-contained HTML file.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from circuitax.records.landing import Shown, scene_data
from circuitax.records.ledger import headline, render
from circuitax.records.rows import Agreement, SettledRow
from circuitax.records.rule import WORDS
from circuitax.records.table import CHAPTERS, Chapter, chapter_of


class GalleryFigure(NamedTuple):
    """A figure of a run.

    Attributes:
        name: Its name.
        png: Address of the picture, relative to the page.
        title: What it shows, one sentence.
        caption: A sentence more; may be empty.
        refuted: What would refute the title; may be empty.
        alt: What is drawn, for readers who do not see it.
        here: Address of the same figure of a run made on this machine, beside an accepted one.
        size: Width and height of the picture.
    """

    name: str
    png: str
    title: str
    caption: str
    refuted: str
    alt: str
    here: str = ""
    size: tuple[int, int] = (0, 0)


class GalleryItem(NamedTuple):
    """One run of an experiment, as the pages show it.

    Attributes:
        experiment: Name of the experiment.
        title: Its name for people.
        message: What it shows, one sentence.
        chapter: A name of `CHAPTERS`; others count as none.
        place: Order within the chapter.
        flagship: Name of the figure that opens the gallery; empty for most experiments.
        scale: Scale of the run.
        seconds: Time it took.
        command: Command that made the run.
        link: Address of the run's folder, relative to the page.
        figures: Its figures, the main one first.
        rows: Its rows, settled.
        origin: Which code computed it.
        here: Its rows as this machine settled them, by id.
    """

    experiment: str
    title: str
    message: str
    chapter: str
    place: int
    flagship: str
    scale: str
    seconds: float
    command: str
    link: str
    figures: tuple[GalleryFigure, ...]
    rows: tuple[SettledRow, ...]
    origin: str = ""
    here: Mapping[str, Agreement] = MappingProxyType({})


def render_index(items: Sequence[GalleryItem], missing: Sequence[str], command: str) -> str:
    """The page that opens the gallery as Markdown: flagship figures and contents."""
    return render("gallery.md", chapters=by_chapter(items), missing=missing, command=command)


def render_chapters(items: Sequence[GalleryItem]) -> dict[str, str]:
    """The pages of the chapters as Markdown, by file name; addresses are relative to them."""
    return {
        chapter.page: render("chapter.md", chapter=chapter, items=group)
        for chapter, group in by_chapter(items).items()
    }


def by_chapter(items: Sequence[GalleryItem]) -> dict[Chapter, list[GalleryItem]]:
    """The items by their chapter, both in the order of the pages; none is empty."""
    ordered = sorted(items, key=lambda item: (item.place, item.experiment))
    groups = {
        chapter: [item for item in ordered if chapter_of(item.chapter) == chapter]
        for chapter in CHAPTERS
    }
    return {chapter: group for chapter, group in groups.items() if group}


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
