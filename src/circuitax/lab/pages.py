"""The pages of a set of runs, gallery, claims and report, generated from the folders alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from circuitax.config.catalogue import Entry, checkout
from circuitax.figures.embedding import embedded_picture
from circuitax.figures.viewers import viewer_script, viewer_section, viewer_style
from circuitax.lab.runs import WholeRun
from circuitax.lab.settle import settle_run
from circuitax.lab.showing import claim_rows, gallery_item, runs_table
from circuitax.lab.viewing import Views, views
from circuitax.records.acceptance import outcome_table
from circuitax.records.claim_changes import changes_table, pilots_table, read_changes, read_pilots
from circuitax.records.claims import Verdict
from circuitax.records.claims_page import counts_text, render_claims_page
from circuitax.records.gallery import GalleryItem, render_gallery
from circuitax.records.report import Interactive, render_report
from circuitax.records.store import write_text

# All pictures of the report together; what it says beside them is small.
REPORT_BYTES = 8_500_000
# Headline statements of the papers, and what was changed in claims: pages that people write.
ACCEPTANCE = "docs/acceptance.md"
CHANGES = "docs/claim_changes.toml"


def write_pages(
    folder: Path, runs: Mapping[str, WholeRun], entries: Mapping[str, Entry], command: str
) -> tuple[Path, Path, Path]:
    """Write ``README.md``, ``CLAIMS.md`` and ``report.html`` about one run of each experiment.

    Args:
        folder: Where the pages go; links are relative to it.
        runs: Folder of a finished run, by experiment, in the order shown.
        entries: All experiments.
        command: What makes the pages.

    Returns:
        The gallery, the claims page and the report, which has both in one file.

    Raises:
        ValueError: If the record of a run does not settle the claims of its experiment.
    """
    items, rows = [], []
    for name, run in runs.items():
        settled = settle_run(run, entries[name])
        rows += claim_rows(run, entries[name], settled, folder)
        items.append(gallery_item(run, entries[name], settled, folder))
    missing = [name for name in sorted(entries) if name not in runs]
    gallery, claims = folder / "README.md", folder / "CLAIMS.md"
    write_text(gallery, render_gallery(items, missing, command))
    listed, kept = checkout() / ACCEPTANCE, checkout() / CHANGES
    found = {row.verdict.claim.id: row.verdict for row in rows}
    page = render_claims_page(
        rows,
        command,
        headlines=outcome_table(listed.read_text(encoding="utf-8"), found),
        changes=changes_table(read_changes(kept)[1]),
        pilots=pilots_table(read_pilots(kept)),
        runs=runs_table(runs, folder),
    )
    write_text(claims, page)
    report = folder / "report.html"
    interactive = _interactive(views(runs, entries))
    pictures = _pictures(items, folder)
    write_text(report, render_report(items, pictures, missing, command, interactive))
    return gallery, claims, report


def _interactive(found: Views) -> Interactive:
    """The viewers as parts of the report."""
    return Interactive(
        sections={name: [viewer_section(v) for v in shown] for name, shown in found.shown.items()},
        titles={name: [v.title for v in shown] for name, shown in found.shown.items()},
        missing=found.missing,
        script=viewer_script(v.kind for shown in found.shown.values() for v in shown),
        style=viewer_style(),
    )


def _pictures(items: Sequence[GalleryItem], folder: Path) -> dict[str, str]:
    """Figures to embed by their address, main figures first, up to the report's limit."""
    ranked = [(i, figure.png) for item in items for i, figure in enumerate(item.figures)]
    found: dict[str, str] = {}
    left = REPORT_BYTES
    for _, address in sorted(ranked, key=lambda pair: pair[0]):
        picture = embedded_picture(folder / address)
        if len(picture) <= left:
            found[address] = picture
            left -= len(picture)
    return found


def verdict_counts(found: list[Verdict]) -> str:
    """Counts of the verdicts, in words; empty when there are no claims."""
    return counts_text([verdict.verdict for verdict in found])
