"""The pages of a set of runs, gallery, claims and report, generated from the folders alone."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import circuitax
from circuitax.config.catalogue import ExperimentEntry, checkout
from circuitax.figures.embedding import embedded_picture
from circuitax.lab.here import published_here
from circuitax.lab.page_items import claim_rows, gallery_item, relative, runs_table
from circuitax.lab.runs import SETTLED, TWIN, WholeRun, figures, results_folder
from circuitax.lab.settle import settle_run
from circuitax.lab.snapshot import OUTCOMES
from circuitax.records.acceptance import outcome_table
from circuitax.records.agreement import Here
from circuitax.records.chapters import CLAIMS, GALLERY
from circuitax.records.claim_changes import (
    changes_table,
    pilots_table,
    read_changes,
    read_moves,
    read_pilots,
)
from circuitax.records.claim_sections import address
from circuitax.records.claim_texts import ClaimRow
from circuitax.records.claims_page import render_claims_page, render_details, render_tables
from circuitax.records.gallery import GalleryItem, render_chapters, render_index
from circuitax.records.manifest import MANIFEST
from circuitax.records.report import Interactive, render_report
from circuitax.records.setting_changes import read_setting_changes, setting_changes_table
from circuitax.records.store import write_text

# All pictures of the report together; what it says beside them is small.
REPORT_BYTES = 8_500_000
# Headline statements of the papers, and what was changed in claims: pages that people write.
ACCEPTANCE = "docs/acceptance.md"
CHANGES = "docs/claim_changes.toml"
# So many rows of changes, the oldest, have a page of their own.
_EARLIER = 250
# The gallery's index, the summary of claims and the report.
PAGES = ("README.md", "CLAIMS.md", "report.html")
# Files of code that decide how a page looks.
_SOURCES = {".py", ".html", ".jinja", ".js", ".css"}


def write_pages(
    folder: Path,
    runs: Mapping[str, WholeRun],
    entries: Mapping[str, ExperimentEntry],
    command: str,
    made: Mapping[str, WholeRun] | None = None,
    here: Mapping[str, Here] | None = None,
) -> tuple[Path, Path, Path]:
    """Write the gallery, the pages of claims and ``report.html`` about one run of each experiment.

    The gallery is ``README.md`` with a page for each chapter in ``gallery/``; of claims
    ``CLAIMS.md`` is the summary, and ``claims/`` has a page for each paper. What else is written
    as Markdown in these two folders is removed.

    Args:
        folder: Where the pages go.
        runs: Folder of a finished run, by experiment, in the order shown.
        entries: All experiments.
        command: What makes the pages.
        made: Runs made on this machine, by experiment, beside accepted ones.
        here: Claims as these measured them, by id.

    Returns:
        The gallery's index, the summary of claims and the report, which has all in one file.

    Raises:
        ValueError: If the record of a run does not settle the claims of its experiment.
    """
    made, here = made or {}, here or {}
    settled = {name: settle_run(run, entries[name]) for name, run in runs.items()}
    missing = [name for name in sorted(entries) if name not in runs]

    def items(page: Path) -> list[GalleryItem]:
        return [
            gallery_item(run, entries[n], settled[n], page, made.get(n)) for n, run in runs.items()
        ]

    def rows(page: Path) -> list[ClaimRow]:
        every = (claim_rows(run, entries[n], settled[n], folder, page) for n, run in runs.items())
        return [_beside(row, made, here, page) for found in every for row in found]

    shown, verdicts = items(folder), {v.claim.id: v for found in settled.values() for v in found}
    listed, kept = checkout() / ACCEPTANCE, checkout() / CHANGES
    places = {name: address(one.claim) for name, one in verdicts.items()}
    gallery, claims, report = (folder / name for name in PAGES)
    write_text(gallery, render_index(shown, missing, command))
    _write_all(folder / GALLERY, render_chapters(items(folder / GALLERY)))
    summary = render_claims_page(
        rows(folder),
        command,
        moves=read_moves(kept),
        headlines=outcome_table(listed.read_text(encoding="utf-8"), verdicts),
        here=published_here(here, verdicts) if made else "",
    )
    write_text(claims, summary)
    changes = read_changes(kept)[1]
    details = render_details(rows(folder / CLAIMS))
    details |= render_tables(
        changes_table(changes[_EARLIER:], places),
        changes_table(changes[:_EARLIER], places),
        setting_changes_table(read_setting_changes(kept)),
        pilots_table(read_pilots(kept)),
        runs_table(runs, folder / CLAIMS),
    )
    _write_all(folder / CLAIMS, {f"{name}.md": page for name, page in details.items()})
    interactive = Interactive({}, {}, {}, "", "")
    pictures = _pictures(shown, folder)
    write_text(report, render_report(shown, pictures, missing, command, interactive, here))
    return gallery, claims, report


def pages_key(
    runs: Mapping[str, WholeRun], made: Mapping[str, WholeRun], here: Mapping[str, Here]
) -> str:
    """Checksum of all that `write_pages` reads: pages with the same one need not be written again.

    Args:
        runs: As in `write_pages`, settled.
        made: Likewise.
        here: Likewise.
    """
    root = checkout()
    read = [root / ACCEPTANCE, root / CHANGES, results_folder() / OUTCOMES]
    for top in (Path(circuitax.__file__).parent, root / "experiments"):
        read += [path for path in sorted(top.rglob("*")) if path.suffix in _SOURCES]
    for run in (*runs.values(), *made.values()):
        read += [run / name for name in (MANIFEST, SETTLED, TWIN)] + [*figures(run)]
    digest = hashlib.sha256(repr((sorted(runs), sorted(made), here)).encode())
    for path in read:
        digest.update(f"{path}\n".encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _beside(
    row: ClaimRow, made: Mapping[str, WholeRun], here: Mapping[str, Here], page: Path
) -> ClaimRow:
    """The row of a claim with this machine's measurement beside it."""
    run = made.get(row.experiment)
    where = "" if run is None else relative(run, page)
    return row._replace(here=here.get(row.settled.claim.id), made=where)


def _write_all(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages by file name, and remove those of a chapter or a paper that has none now."""
    for name, text in pages.items():
        write_text(folder / name, text)
    for path in folder.glob("*.md"):
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
