"""The two pages of a set of runs, gallery and claims, written from the folders alone."""

import os
from collections.abc import Mapping
from pathlib import Path

from circuitax.config.catalogue import Entry
from circuitax.lab.runs import figures, provenance
from circuitax.lab.settle import settle_run
from circuitax.records.claims import Verdict
from circuitax.records.claims_page import ClaimRow, counts_text, render_claims_page
from circuitax.records.gallery import GalleryItem, render_gallery
from circuitax.records.store import write_text


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
        found = settle_run(run, entries[name])
        link = _relative(run, folder)
        rows += [ClaimRow(item, name, facts["scale"], facts["run"], link) for item in found]
        items.append(
            GalleryItem(
                name,
                entries[name].message,
                facts["scale"],
                facts["seconds"],
                facts["command"],
                link,
                tuple(_relative(path, folder) for path in figures(run)),
                verdict_counts(found),
            )
        )
    missing = [name for name in sorted(entries) if name not in runs]
    gallery, claims = folder / "README.md", folder / "CLAIMS.md"
    write_text(gallery, render_gallery(items, missing, command))
    write_text(claims, render_claims_page(rows, command))
    return gallery, claims


def verdict_counts(found: list[Verdict]) -> str:
    """How many claims have each verdict, in words; empty when there are no claims."""
    return counts_text([verdict.verdict for verdict in found])


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
