"""The pages of a set of runs, gallery, ledger and report, generated from the folders alone."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from circuitax.config.catalogue import READINGS, ExperimentEntry, checkout
from circuitax.figures.picture import described, embedded_picture
from circuitax.lab.runs import WholeRun, figures, provenance
from circuitax.lab.settle import settle_run
from circuitax.records.gallery import (
    GalleryFigure,
    GalleryItem,
    render_chapters,
    render_index,
    render_report,
)
from circuitax.records.landing import (
    SCENES,
    octahedron,
    octahedron_picture,
    render_landing,
    shown_scenes,
)
from circuitax.records.ledger import LedgerRow, render_ledger
from circuitax.records.record import DATA
from circuitax.records.rows import Agreement, SettledRow, agreement_text, compare_accepted
from circuitax.records.store import read_dataset, write_text
from circuitax.records.table import CLAIMS, GALLERY, chapter_of

# All pictures of the report together; what it says beside them is small.
REPORT_BYTES = 5_500_000


def write_pages(
    folder: Path,
    runs: Mapping[str, WholeRun],
    entries: Mapping[str, ExperimentEntry],
    command: str,
    made: Mapping[str, WholeRun] | None = None,
    landing: Path | None = None,
) -> tuple[Path, Path, Path]:
    """Write the gallery, the ledger and ``report.html`` about one run of each experiment.

    What else is written as Markdown in ``gallery/`` and ``claims/`` is removed.

    Args:
        folder: Where the pages go.
        runs: Folder of a finished run, by experiment, in the order shown.
        entries: All experiments.
        command: What makes the pages.
        made: Runs made on this machine, by experiment, beside accepted ones.
        landing: File of the landing page, beside the notebooks that it links and ``pictures/``, for
            the moving one of README; none without it.

    Returns:
        The gallery's index, the summary of the ledger and the report, which has all in one file.

    Raises:
        ValueError: If the record of a run does not settle the rows of its experiment.
    """
    made = made or {}
    settled = {name: settle_run(run, entries[name]) for name, run in runs.items()}
    here = {
        name: compare_accepted(settle_run(run, entries[name]), settled[name])
        for name, run in made.items()
        if name in settled and run != runs[name]
    }
    missing = [name for name in sorted(entries) if name not in runs]

    def items(page: Path) -> list[GalleryItem]:
        return [
            _item(run, entries[n], settled[n], page, made.get(n), here.get(n, {}))
            for n, run in runs.items()
        ]

    shown = items(folder)
    gallery, report = folder / "README.md", folder / "report.html"
    write_text(gallery, render_index(shown, missing, command))
    _write_all(folder, GALLERY, render_chapters(items(folder / GALLERY)))
    ledger = render_ledger(_rows(settled, entries, here), command)
    summary = folder / "CLAIMS.md"
    write_text(summary, ledger.pop(summary.name))
    pages = {name.removeprefix(f"{CLAIMS}/"): text for name, text in ledger.items()}
    _write_all(folder, CLAIMS, pages)
    agreement = ""
    if here:
        published = [r.row.id for found in settled.values() for r in found if r.row.published]
        agreement = agreement_text(
            {k: v for found in here.values() for k, v in found.items()}, published
        )
    needed = {name for scene in SCENES for name in scene.experiments}
    records = {name: read_dataset(run / DATA)[0] for name, run in runs.items() if name in needed}
    scenes = shown_scenes(records, settled)
    if landing is not None:
        rows = [each for found in settled.values() for each in found]
        write_text(landing, render_landing(scenes, rows, command))
        for each in scenes:
            if each.scene.facts is octahedron:
                picture = landing.with_name("pictures") / "octahedron.svg"
                write_text(picture, octahedron_picture(each.facts))
    pictures = _pictures(shown, folder)
    docs = relative(checkout() / "docs", folder)
    write_text(report, render_report(shown, pictures, missing, command, docs, scenes, agreement))
    return gallery, summary, report


def relative(path: Path, folder: Path) -> str:
    """Address of a file, seen from a folder."""
    return Path(os.path.relpath(path, folder)).as_posix()


def _item(
    run: WholeRun,
    entry: ExperimentEntry,
    rows: Sequence[SettledRow],
    folder: Path,
    made: WholeRun | None,
    here: dict[str, Agreement],
) -> GalleryItem:
    facts, table = provenance(run), entry.table
    pictures = {path.stem: path for path in figures(run)}
    again = {} if made in (None, run) else {path.stem: path for path in figures(made)}
    readings = entry.load(READINGS) if table.figures else None
    shown = tuple(
        GalleryFigure(
            name=figure.name,
            png=relative(pictures[figure.name], folder),
            title=figure.title,
            caption=figure.caption,
            refuted=figure.refuted,
            alt=f"{entry.title}: {described(figure, readings) or figure.title}",
            here=relative(again[figure.name], folder) if figure.name in again else "",
            size=_size(pictures[figure.name]),
        )
        for figure in table.figures
        if figure.name in pictures and readings is not None
    )
    return GalleryItem(
        experiment=entry.name,
        title=table.title,
        message=table.message,
        chapter=entry.chapter,
        place=table.place,
        flagship=next((figure.name for figure in table.figures if figure.flagship), ""),
        scale=facts["scale"],
        seconds=facts["seconds"],
        command=facts["command"],
        link=relative(run, folder),
        figures=shown,
        rows=tuple(rows),
        origin=f"computed by {str(facts['commit'])[:8]}" if facts["commit"] else "",
        here=here,
    )


def _rows(
    settled: Mapping[str, Sequence[SettledRow]],
    entries: Mapping[str, ExperimentEntry],
    here: Mapping[str, Mapping[str, Agreement]],
) -> list[LedgerRow]:
    return [
        LedgerRow(
            row,
            name,
            entries[name].title,
            f"{GALLERY}/{chapter_of(entries[name].chapter).page}#{name}",
            here.get(name, {}).get(row.row.id),
        )
        for name, found in settled.items()
        for row in found
    ]


def _size(path: Path) -> tuple[int, int]:
    from PIL import Image

    with Image.open(path) as picture:
        return picture.size


def _write_all(folder: Path, name: str, pages: Mapping[str, str]) -> None:
    """Write pages by file name, and remove those of a chapter or a paper that has none now."""
    for page, text in pages.items():
        write_text(folder / name / page, text)
    for path in (folder / name).glob("*.md"):
        if path.name not in pages:
            path.unlink()


def _pictures(items: Sequence[GalleryItem], folder: Path) -> dict[str, str]:
    """Figures to embed by their address, main figures first, up to the report's limit."""
    ranked = [(i, figure.png) for item in items for i, figure in enumerate(item.figures)]
    found: dict[str, str] = {}
    left = REPORT_BYTES
    for _, png in sorted(ranked, key=lambda pair: pair[0]):
        picture = embedded_picture(folder / png)
        if len(picture) <= left:
            found[png] = picture
            left -= len(picture)
    return found
