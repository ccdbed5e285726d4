"""The gallery: an index, and a page for each chapter with the figures of its experiments."""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.chapters import CHAPTERS, Chapter, chapter_of
from circuitax.records.claims import SettledClaim
from circuitax.records.templates import render


class GalleryFigure(NamedTuple):
    """A figure of a run.

    Attributes:
        name: Its name.
        png: Address of the picture, relative to the page.
        pdf: Address of the same picture for print; empty when there is none.
        message: What it shows, one sentence.
        caption: A sentence more; may be empty.
        refuted: What would refute the message; may be empty.
        alt: What is drawn, for readers who do not see it.
        here: Address of the same figure of a run made on this machine, beside an accepted one.
    """

    name: str
    png: str
    pdf: str
    message: str
    caption: str
    refuted: str
    alt: str
    here: str = ""


class GalleryItem(NamedTuple):
    """One run of an experiment, as the page shows it.

    Attributes:
        experiment: Name of the experiment.
        message: What it shows, one line.
        chapter: A name of `CHAPTERS`; others count as none.
        place: Order within the chapter.
        flagship: Name of the figure that opens the page; empty for most experiments.
        scale: Scale of the run.
        seconds: Time it took.
        command: Command that made the run.
        link: Address of the run's folder, relative to the page.
        figures: Its figures, the main one first.
        verdicts: What became of its claims.
        origin: Which code computed it, and what the present code gives; may be empty.
        notes: Markdown without headings, on pilots and on what no claim says; may be empty.
    """

    experiment: str
    message: str
    chapter: str
    place: int
    flagship: str
    scale: str
    seconds: float
    command: str
    link: str
    figures: tuple[GalleryFigure, ...]
    verdicts: tuple[SettledClaim, ...]
    origin: str = ""
    notes: str = ""


def render_index(items: Sequence[GalleryItem], missing: Sequence[str], command: str) -> str:
    """The page that opens the gallery as Markdown: flagship figures and contents.

    Args:
        items: Runs in any order.
        missing: Experiments without a run.
        command: Command that makes the page.
    """
    chapters = by_chapter(items)
    return render("gallery.md", chapters=chapters, missing=missing, command=command)


def render_chapters(items: Sequence[GalleryItem]) -> dict[str, str]:
    """The pages of the chapters as Markdown, by file name.

    Args:
        items: Runs in any order, with addresses relative to the pages' folder.
    """
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
