"""The gallery: an index, and a page for each chapter with what its experiments show."""

from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.chapters import CHAPTERS, CLAIMS, GALLERY, Chapter, chapter_of
from circuitax.records.claim_sections import address
from circuitax.records.claims import (
    ABSENT,
    FAILS,
    HOLDS,
    NOT_RUN,
    UNDECIDED,
    VERDICTS,
    WOULD_HOLD,
    Verdict,
)
from circuitax.records.claims_table import measured_text, null_text

# A mark for each verdict, so that no reader depends on colour.
MARKS = {HOLDS: "✔", FAILS: "✘", UNDECIDED: "?", WOULD_HOLD: "≈", ABSENT: "∅", NOT_RUN: "–"}
_WORDS = {HOLDS: "hold", FAILS: "fail"}
_ONE = {HOLDS: "holds", FAILS: "fails"}


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
    verdicts: tuple[Verdict, ...]
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
    parts = [
        "# Results\n",
        f"Figures of {len(items)} experiments, made from the runs by `{command}`. What they settle "
        "is on the [claims page](CLAIMS.md); `report.html`, which the same command writes beside "
        "this page, has both in one file that can be searched and filtered. "
        "`python -m experiments.render NAME/accepted` draws the figures of an experiment as PDF.\n",
    ]
    for item in (item for group in chapters.values() for item in group):
        for figure in item.figures:
            if figure.name == item.flagship:
                parts.append(_picture(figure))
                parts.append(f"*{_text(figure)}* → {_link(item)}\n")
    parts.append("## Contents\n")
    for chapter, group in chapters.items():
        parts.append(f"### [{chapter.title}]({GALLERY}/{chapter.page})\n\n{chapter.about}\n")
        lines = [f'- <a id="{i.experiment}"></a>{_link(i)}: {i.message}' for i in group]
        parts.append("\n".join(lines) + "\n")
    if missing:
        parts.append(f"Not run yet: {', '.join(missing)}.\n")
    return "\n".join(parts)


def render_chapters(items: Sequence[GalleryItem]) -> dict[str, str]:
    """The pages of the chapters as Markdown, by file name.

    Args:
        items: Runs in any order, with addresses relative to the pages' folder.
    """
    pages = {}
    for chapter, group in by_chapter(items).items():
        contents = " · ".join(f"[{i.experiment}](#{i.experiment})" for i in group)
        marks = ", ".join(f"{MARKS[name]} {name}" for name in VERDICTS)
        head = (
            f"# {chapter.title}\n\n{chapter.about} All chapters: [results](../README.md).\n\n"
            f"{contents}\n\nVerdicts of claims: {marks}.\n"
        )
        pages[chapter.page] = "\n".join([head, *(_section(item) for item in group)])
    return pages


def by_chapter(items: Sequence[GalleryItem]) -> dict[Chapter, list[GalleryItem]]:
    """The items by their chapter, both in the order of the pages; none is empty."""
    ordered = sorted(items, key=lambda item: (item.place, item.experiment))
    groups = {
        chapter: [item for item in ordered if chapter_of(item.chapter) == chapter]
        for chapter in CHAPTERS
    }
    return {chapter: group for chapter, group in groups.items() if group}


def badge(verdicts: Sequence[Verdict]) -> str:
    """How many claims have each verdict, with its mark: ``"✔ 3 hold · ✘ 1 fails"``."""
    given = [verdict.verdict for verdict in verdicts]
    parts = []
    for name in VERDICTS:
        if n := given.count(name):
            parts.append(f"{MARKS[name]} {n} {(_ONE if n == 1 else _WORDS).get(name, name)}")
    return " · ".join(parts)


def _section(item: GalleryItem) -> str:
    parts = [f"## {item.experiment}\n\n{item.message}\n"]
    if item.verdicts:
        parts.append(_claims(item.verdicts))
    for figure in item.figures:
        parts.append(_picture(figure))
        line = f"**{figure.message}**" if figure.message else ""
        line += f" {figure.caption}" if figure.caption else ""
        line += f" *{figure.refuted}*" if figure.refuted else ""
        line += f" [PDF]({figure.pdf})" if figure.pdf else ""
        line += f" [The same figure, computed here]({figure.here})" if figure.here else ""
        parts.append(line.strip() + "\n")
    if not item.figures:
        parts.append("No figure.\n")
    if item.notes:
        parts.append(f"{item.notes}\n")
    parts.append(_beside(item.verdicts))
    facts = [f"`{item.command}`", f"{item.scale} scale", f"{item.seconds:.0f} s", item.origin]
    parts.append(" · ".join([*filter(None, facts), f"[run]({item.link})"]) + "\n")
    return "\n".join(part for part in parts if part)


def _claims(verdicts: Sequence[Verdict]) -> str:
    """The badge, and folded below it a link to the row of each claim."""
    links = [f"{MARKS[found.verdict]} {_row(found)}" for found in verdicts]
    title = f"<summary>Claims: {badge(verdicts)}</summary>"
    return f"<details>{title}\n\n{' · '.join(links)}\n\n</details>\n"


def _row(found: Verdict) -> str:
    return f"[`{found.claim.id}`](../{CLAIMS}/{address(found.claim)})"


def _beside(verdicts: Sequence[Verdict]) -> str:
    """Printed numbers beside ours, folded away."""
    rows = [verdict for verdict in verdicts if verdict.claim.printed]
    if not rows:
        return ""
    lines = ["| claim | printed | ours | null | verdict |", "|" + " --- |" * 5]
    for row in rows:
        cells = (
            row.claim.statement,
            row.claim.printed,
            measured_text(row.estimate),
            null_text(row),
            f"[{MARKS[row.verdict]} {row.verdict}](../{CLAIMS}/{address(row.claim)})",
        )
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    title = f"<summary>Printed beside ours ({len(rows)})</summary>"
    return f"<details>{title}\n\n" + "\n".join(lines) + "\n\n</details>\n"


def _link(item: GalleryItem) -> str:
    page = chapter_of(item.chapter).page
    return f"[{item.experiment}]({GALLERY}/{page}#{item.experiment})"


def _picture(figure: GalleryFigure) -> str:
    alt = " ".join(figure.alt.replace("[", "(").replace("]", ")").split())
    return f"![{alt}]({figure.png})\n"


def _text(figure: GalleryFigure) -> str:
    return f"{figure.message} {figure.caption}".strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
