"""One run of an experiment as the gallery and the report show it."""

import os
from collections.abc import Sequence
from pathlib import Path

from circuitax.config.catalogue import Entry
from circuitax.config.showcase import FigureText, read_showcase
from circuitax.lab.runs import figures, provenance
from circuitax.records.claims import Verdict
from circuitax.records.gallery import GalleryFigure, GalleryItem

_UNTOLD = FigureText("", "", "", "")


def gallery_item(run: Path, entry: Entry, verdicts: Sequence[Verdict], folder: Path) -> GalleryItem:
    """Everything the pages say about a run.

    Args:
        run: Folder of a finished run.
        entry: Its experiment.
        verdicts: What became of its claims.
        folder: Folder of the pages; addresses are relative to it.
    """
    facts, showcase = provenance(run), read_showcase(entry)
    order = list(showcase.figures)
    pictures = sorted(
        figures(run),
        key=lambda path: order.index(path.stem) if path.stem in order else len(order),
    )
    shown = []
    for path in pictures:
        text = showcase.figures.get(path.stem, _UNTOLD)
        pdf = path.with_suffix(".pdf")
        shown.append(
            GalleryFigure(
                name=path.stem,
                png=relative(path, folder),
                pdf=relative(pdf, folder) if pdf.is_file() else "",
                message=text.message or text.drawn,
                caption=text.caption,
                refuted=text.refuted,
                alt=f"{entry.name}, {path.stem}: {text.drawn or text.message or entry.message}",
            )
        )
    return GalleryItem(
        experiment=entry.name,
        message=entry.message,
        chapter=showcase.chapter,
        place=showcase.place,
        flagship=showcase.flagship,
        scale=facts["scale"],
        seconds=facts["seconds"],
        command=facts["command"],
        link=relative(run, folder),
        figures=tuple(shown),
        verdicts=tuple(verdicts),
    )


def relative(path: Path, folder: Path) -> str:
    """Address of a file, seen from a folder."""
    return Path(os.path.relpath(path, folder)).as_posix()
