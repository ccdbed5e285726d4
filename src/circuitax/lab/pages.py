"""The two pages of a set of runs, gallery and claims, written from the folders alone."""

import os
from collections.abc import Mapping
from pathlib import Path

from circuitax.config.catalogue import Entry
from circuitax.lab.runs import ACCEPTED, figures, provenance, verdicts
from circuitax.lab.settle import settle_run
from circuitax.records.claims import FAILS, HOLDS, OUT_OF_REACH, Verdict
from circuitax.records.gallery import GalleryItem, render_gallery
from circuitax.records.ledger import LedgerRow, render_ledger
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
    """
    items, rows = [], []
    for name, run in runs.items():
        facts = provenance(run)
        found = _settled(run, entries.get(name))
        link = _relative(run, folder)
        rows += [LedgerRow(item, name, facts["scale"], facts["run"], link) for item in found]
        items.append(
            GalleryItem(
                name,
                entries[name].message if name in entries else "",
                facts["scale"],
                facts["seconds"],
                facts["command"],
                link,
                tuple(_relative(path, folder) for path in figures(run)),
                verdict_counts(found),
            )
        )
    missing = [name for name in sorted(entries) if name not in runs]
    gallery, ledger = folder / "README.md", folder / "CLAIMS.md"
    write_text(gallery, render_gallery(items, missing, command))
    write_text(ledger, render_ledger(rows, command))
    return gallery, ledger


def _settled(run: Path, entry: Entry | None) -> list[Verdict]:
    if entry is None:
        return verdicts(run)
    try:
        return settle_run(run, entry)
    except ValueError:
        # An accepted record may be older than what the measures of today need to know.
        if run.name != ACCEPTED:
            raise
        return verdicts(run)


def verdict_counts(found: list[Verdict]) -> str:
    """How many claims hold, fail and are out of reach, in words; empty when there are none."""
    counts = [verdict.verdict for verdict in found]
    words = ((HOLDS, "hold"), (FAILS, "fail"), (OUT_OF_REACH, "out of reach"))
    return ", ".join(
        f"{counts.count(verdict)} {text}" for verdict, text in words if verdict in counts
    )


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()
