"""A poster of results, from the accepted runs: ``python -m experiments.poster``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from circuitax.commands.accept import accepted_runs
from circuitax.commands.options import Command, refuse
from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.figures.picture import save_pdf
from circuitax.figures.poster import Panel, poster
from circuitax.figures.spec import draw_all
from circuitax.lab.page_items import claim_rows, gallery_item
from circuitax.lab.places import require_results
from circuitax.lab.runs import WholeRun, provenance, shown, whole
from circuitax.lab.settle import settle_run
from circuitax.records.chapters import CHAPTERS
from circuitax.records.claim_texts import ClaimRow, badge
from circuitax.records.claims_page import published_counts
from circuitax.records.gallery import GalleryItem
from circuitax.records.record import Record

COMMAND = Command(
    "poster",
    """\
Draws results/poster.pdf and results/poster.png from the accepted runs: how the published statements
fared, and nine figures from the algebra of paths to real models.
""",
)
SCREEN = 150  # dots an inch of the PNG, and of the pictures in the PDF
TITLE = "circuitax: transformer circuits and superposition"
# Experiment and figure, in the order of the chapters of the gallery.
SHOWN = (
    ("path_explosion", "ledger"),
    ("toy_phase", "phase"),
    ("toy_intro", "loss"),
    ("jl_threshold", "threshold"),
    ("bigram", "widths"),
    ("one_layer_circuits", "additivity"),
    ("induction_phase", "slope"),
    ("two_layer_circuits", "eigenvalues"),
    ("real_induction", "heads"),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Draw the poster; exit status 2 when there is no accepted run."""
    try:
        folder = require_results()
        entries = discover()
        runs = {name: whole(run) for name, run in accepted_runs(entries).items()}
        if not runs:
            raise ValueError("there is no accepted run: run experiments.accept first")
        items, rows = _read(runs, entries, folder)
        page = poster(TITLE, _lines(rows, runs), list(_panels(items, runs, entries)))
    except ValueError as error:
        return refuse(error)
    pdf, png = (folder / f"poster.{suffix}" for suffix in ("pdf", "png"))
    save_pdf(page, pdf, dpi=SCREEN)
    print(shown(pdf))
    page.savefig(png, dpi=SCREEN)
    print(shown(png))
    return 0


def _read(
    runs: dict[str, WholeRun], entries: dict[str, ExperimentEntry], folder: Path
) -> tuple[list[GalleryItem], list[ClaimRow]]:
    items: list[GalleryItem] = []
    rows: list[ClaimRow] = []
    for name, run in runs.items():
        settled = settle_run(run, entries[name])
        items.append(gallery_item(run, entries[name], settled, folder))
        rows += claim_rows(run, entries[name], settled, folder)
    return items, rows


def _lines(rows: list[ClaimRow], runs: dict[str, WholeRun]) -> list[str]:
    n_seconds = sum(provenance(run)["seconds"] for run in runs.values())
    return [
        f"{len(runs)} experiments, {len(rows)} claims, {n_seconds / 60:.0f} minutes on two cores.",
        *published_counts(rows),
    ]


def _panels(
    items: list[GalleryItem], runs: dict[str, WholeRun], entries: dict[str, ExperimentEntry]
) -> Iterator[Panel]:
    """The figures of `SHOWN` that have an accepted run."""
    chapters = {name: title for name, title, _ in CHAPTERS}
    of = {item.experiment: item for item in items}
    for name, wanted in SHOWN:
        told = (
            [figure for figure in of[name].figures if figure.name == wanted] if name in of else []
        )
        if told:
            spec = next(s for s in entries[name].load_figures() if s.name == wanted)
            figure = draw_all([spec], Record.load(runs[name]))[wanted]
            note = f"{name}: claims {badge(of[name].verdicts)}"
            yield Panel(chapters[of[name].chapter], told[0].message, note, figure)
