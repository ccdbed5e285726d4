"""The two pages of a set of runs, gallery and claims, written from the folders alone."""

import os
from collections.abc import Mapping
from pathlib import Path

from circuitax.config.catalogue import CLAIMS, MEASURES, Entry, checkout
from circuitax.lab.runs import figures, provenance
from circuitax.lab.settle import settle_run
from circuitax.records.acceptance import outcome_table
from circuitax.records.claim_changes import changes_table, read_changes
from circuitax.records.claims import Claim, Verdict
from circuitax.records.claims_page import counts_text, render_claims_page
from circuitax.records.claims_table import ClaimRow
from circuitax.records.gallery import GalleryItem, render_gallery
from circuitax.records.store import write_text

# Headline statements of the papers, and what was changed in claims: pages that people write.
ACCEPTANCE = "docs/acceptance.md"
CHANGES = "docs/claim_changes.toml"


def write_pages(
    folder: Path, runs: Mapping[str, Path], entries: Mapping[str, Entry], command: str
) -> tuple[Path, Path]:
    """Write ``README.md`` and ``CLAIMS.md`` about one run of each experiment.

    Args:
        folder: Where the pages go; links are relative to it.
        runs: Folder of a finished run, by experiment, in the order shown.
        entries: All experiments.
        command: What makes the pages.

    Returns:
        The gallery and the claims page.

    Raises:
        ValueError: If the record of a run does not settle the claims of its experiment.
    """
    items, rows = [], []
    for name, run in runs.items():
        facts = provenance(run)
        settled = settle_run(run, entries[name])
        link = _relative(run, folder)
        pictures = [_relative(path, folder) for path in figures(run)]
        # A single figure is shown itself, several in the gallery.
        figure = pictures[0] if len(pictures) == 1 else f"README.md#{name}"
        rows += [
            ClaimRow(
                item,
                name,
                facts["scale"],
                facts["run"],
                link,
                figure,
                _code(entries[name], item.claim, folder),
            )
            for item in settled
        ]
        items.append(
            GalleryItem(
                name,
                entries[name].message,
                facts["scale"],
                facts["seconds"],
                facts["command"],
                link,
                tuple(pictures),
                verdict_counts(settled),
            )
        )
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
    )
    write_text(claims, page)
    return gallery, claims


def verdict_counts(found: list[Verdict]) -> str:
    """How many claims have each verdict, in words; empty when there are no claims."""
    return counts_text([verdict.verdict for verdict in found])


def _code(entry: Entry, claim: Claim, folder: Path) -> str:
    """Address of the line that measures a claim, or of the file where no line names it."""
    places = [entry.file(part) for part in (MEASURES, CLAIMS) if entry.file(part).is_file()]
    address = _relative(places[0], folder)
    lines = places[0].read_text(encoding="utf-8").splitlines()
    named = [i for i, line in enumerate(lines, 1) if f'"{claim.quantity}"' in line]
    # A file of both claims and measures names the claim first, and measures it last.
    return f"{address}#L{named[-1]}" if named else address


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
