"""A run's figures from its record on disk, without JAX."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from circuitax.config.catalogue import READINGS, TABLE, ExperimentEntry
from circuitax.lab.runs import ACCEPTED, FIGURES, WholeRun, place_of
from circuitax.lab.source import source_hash
from circuitax.records.record import Record
from circuitax.records.store import checksums, whole_folder, write_json

if TYPE_CHECKING:
    from circuitax.figures.picture import Titled

_PRINT = 300  # dots an inch of pictures
_PAGE = 144  # ... of accepted ones: a column of a page on a screen is at most 1,000 dots wide
_PIXELS = 200  # an inch, of what is drawn as pixels inside a PDF or an SVG
_SOURCE = ".source"


def draw_figures(run: WholeRun, entry: ExperimentEntry, *, of_sweep: bool = False) -> list[Path]:
    """Redraw every figure of a run, as PNG, PDF and SVG; the old ones stay if drawing fails.

    Each has its message as title. The pictures of an accepted run are those of `page_pictures`;
    what is for print are its PDFs and SVGs.

    Args:
        run: Folder of the run.
        entry: Its experiment.
        of_sweep: Whether it is the merged record of a sweep.

    Returns:
        The PNG files.
    """
    if not entry.table.figures:
        return []
    drawn = _drawn(run, entry, of_sweep)
    if of_sweep and not drawn:
        return []
    with whole_folder(run / FIGURES) as folder:
        _write(drawn, folder, for_page=run.name == ACCEPTED)
        write_json(folder / _SOURCE, {"source": _hash(entry), "sha256": _files(folder)})
    return [run / FIGURES / f"{name}.png" for name in drawn]


def draw_restyled(
    run: WholeRun,
    entry: ExperimentEntry,
    folder: Path,
    style: Path | None,
    labels: Mapping[str, str],
) -> list[Path]:
    """Figures of a run in another style and with other texts, as PNG, PDF and SVG elsewhere."""
    drawn = _drawn(run, entry, of_sweep=False, style=style, labels=labels)
    folder.mkdir(parents=True, exist_ok=True)
    _write(drawn, folder)
    return [folder / f"{name}.png" for name in drawn]


def page_pictures(run: WholeRun, entry: ExperimentEntry) -> dict[str, bytes]:
    """Every figure of a run as a PNG file that fits a page, by name: as they are kept in git.

    They are as wide as two columns of print on a screen, and packed without loss.

    Args:
        run: Folder of the run, in which nothing is changed.
        entry: Its experiment.
    """
    if not entry.table.figures:
        return {}
    return _packed(_drawn(run, entry, of_sweep=False))


def _packed(drawn: Mapping[str, "Titled"]) -> dict[str, bytes]:
    from circuitax.figures.picture import packed_picture

    return {
        name: packed_picture(figure, dpi=_PAGE, bbox_inches=whole)
        for name, (figure, whole) in drawn.items()
    }


def _write(drawn: Mapping[str, "Titled"], folder: Path, *, for_page: bool = False) -> None:
    from circuitax.figures.picture import save_picture, save_vectors

    for name, (figure, whole) in drawn.items():
        if not for_page:
            save_picture(figure, folder / f"{name}.png", dpi=_PRINT, bbox_inches=whole)
        save_vectors(figure, folder / f"{name}.pdf", dpi=_PIXELS, bbox_inches=whole)
    for name, picture in _packed(drawn).items() if for_page else ():
        (folder / f"{name}.png").write_bytes(picture)


def _drawn(
    run: WholeRun,
    entry: ExperimentEntry,
    of_sweep: bool,
    style: Path | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, "Titled"]:
    """Figures by name, each with the frame in which its title fits."""
    from circuitax.figures.picture import add_title, draw_all
    from circuitax.figures.style import rename

    labels = labels or {}
    titles = {figure.name: figure.title for figure in entry.table.figures}
    data = Record.load(run).noted
    readings = entry.load(READINGS)
    try:
        figures = draw_all(entry.table, readings, data, of_sweep=of_sweep, style=style)
    except Exception as error:
        raise ValueError(f"{place_of(error)}: {type(error).__name__}: {error}") from error
    if labels:
        rename(figures.values(), labels, titles.values())
    titles = {name: labels.get(title, title) for name, title in titles.items()}
    return {name: (fig, add_title(fig, titles[name])) for name, fig in figures.items()}


def up_to_date(run: WholeRun, entry: ExperimentEntry) -> bool:
    """Whether the figures of a run were drawn by the present source, and are whole."""
    if not entry.table.figures:
        return True
    try:
        drawn = json.loads((run / FIGURES / _SOURCE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(drawn == {"source": _hash(entry), "sha256": _files(run / FIGURES)})


def _hash(entry: ExperimentEntry) -> str:
    # Matplotlib takes a third of a second, which the first steps of a run should not wait for.
    from circuitax.figures.style import STYLE

    return source_hash([entry.file(READINGS), entry.folder / TABLE, STYLE])


def _files(folder: Path) -> dict[str, str]:
    return checksums(folder, sorted(p.name for p in folder.iterdir() if p.name[0] != "."))
