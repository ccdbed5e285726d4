"""One run of an experiment as the gallery, the claims page and the report show it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from circuitax.config.catalogue import ExperimentEntry
from circuitax.lab.runs import ACCEPTED, WholeRun, figures, provenance
from circuitax.lab.snapshot import checked_twin
from circuitax.records.chapters import GALLERY, chapter_of
from circuitax.records.claim_texts import ClaimRow
from circuitax.records.claims import Claim, SettledClaim
from circuitax.records.gallery import GalleryFigure, GalleryItem
from circuitax.records.measured import measured_by
from circuitax.records.twin import DIFFERENT, NOT_COMPUTED, ROUNDED, SAME

OUTDATED = "computed by older code whose numbers differ"


def gallery_item(
    run: WholeRun,
    entry: ExperimentEntry,
    verdicts: Sequence[SettledClaim],
    folder: Path,
    made: WholeRun | None = None,
) -> GalleryItem:
    """Everything the pages say about a run.

    Args:
        run: Folder of a finished run.
        entry: Its experiment.
        verdicts: What became of its claims.
        folder: Folder of the page; addresses are relative to it.
        made: A run of the same experiment that was made on this machine, beside an accepted one.
    """
    facts, declared = provenance(run), entry.load_figures()
    pictures = {path.stem: path for path in figures(run)}
    again = {} if made in (None, run) else {path.name: path for path in figures(made)}
    shown = []
    for spec in (spec for spec in declared if spec.name in pictures):
        path = pictures[spec.name]
        pdf = path.with_suffix(".pdf")
        # Git keeps no PDF of an accepted run, so that its tracked pages must not lead to one.
        printed = run.name != ACCEPTED and pdf.is_file()
        shown.append(
            GalleryFigure(
                name=spec.name,
                png=relative(path, folder),
                pdf=relative(pdf, folder) if printed else "",
                message=spec.message,
                caption=spec.caption,
                refuted=spec.refuted,
                here=relative(again[path.name], folder) if path.name in again else "",
                alt=f"{entry.name}, {spec.name}: {spec.drawn or spec.message}",
            )
        )
    return GalleryItem(
        experiment=entry.name,
        message=entry.message,
        chapter=entry.chapter,
        place=entry.place,
        flagship=next((spec.name for spec in declared if spec.flagship), ""),
        scale=facts["scale"],
        seconds=facts["seconds"],
        command=facts["command"],
        link=relative(run, folder),
        figures=tuple(shown),
        verdicts=tuple(verdicts),
        origin=origin(run),
        notes=entry.notes,
    )


def claim_rows(
    run: WholeRun,
    entry: ExperimentEntry,
    verdicts: Sequence[SettledClaim],
    top: Path,
    folder: Path | None = None,
) -> list[ClaimRow]:
    """Rows of a run on the pages of claims.

    Args:
        run: As in `gallery_item`.
        entry: Likewise.
        verdicts: Likewise.
        top: Folder of the summary and of the gallery's index.
        folder: Folder of the page, to which addresses are relative; None for ``top``.
    """
    folder = top if folder is None else folder
    facts = provenance(run)
    pictures = [relative(path, folder) for path in figures(run)]
    # A single figure is shown itself, several in the gallery.
    chapter = relative(top / GALLERY / chapter_of(entry.chapter).page, folder)
    figure = pictures[0] if len(pictures) == 1 else f"{chapter}#{entry.name}"
    return [
        ClaimRow(
            settled,
            entry.name,
            facts["scale"],
            facts["run"],
            relative(run, folder),
            figure,
            _code(entry, settled.claim, folder),
            OUTDATED if checked_twin(run).get("outcome") == DIFFERENT else "",
        )
        for settled in verdicts
    ]


def origin(run: WholeRun) -> str:
    """Commit that computed a run, and whether the code of a later one gives the same tiny run."""
    facts, twin = provenance(run), checked_twin(run)
    commit = str(facts["commit"])[:8] if facts["commit"] else "no commit"
    told = f"computed by {commit}"
    if not twin:
        return told
    at = f"checked at {str(twin['checked_at'])[:8]}"
    size = twin["largest"] or 0.0  # none where a variable is not there
    said = {
        SAME: f"the present code gives the same tiny run, bit by bit ({at})",
        ROUNDED: f"the present code gives the same tiny run up to {size:.0e} ({at})",
        DIFFERENT: f"{OUTDATED} ({at}: {', '.join(twin['variables'][:3])})",
        NOT_COMPUTED: f"not compared with the present code ({at})",
    }
    return f"{told}; {said.get(twin['outcome'], 'its twin failed')}"


def runs_table(runs: Mapping[str, WholeRun], folder: Path) -> str:
    """A row for each experiment: its run, how long that took, and the code that computed it."""
    rows = ["| experiment | run | scale | seconds | code |", "| --- | --- | --- | --- | --- |"]
    for name, run in sorted(runs.items()):
        facts = provenance(run)
        link = f"[{facts['run']}]({relative(run, folder)})"
        rows.append(
            f"| {name} | {link} | {facts['scale']} | {facts['seconds']:.0f} | {origin(run)} |"
        )
    return "\n".join(rows)


def _code(entry: ExperimentEntry, claim: Claim, folder: Path) -> str:
    """Address of the function that measures a claim."""
    code = measured_by(claim.quantity, entry.load_measure()).__code__
    return f"{relative(Path(code.co_filename), folder)}#L{code.co_firstlineno}"


def relative(path: Path, folder: Path) -> str:
    """Address of a file, seen from a folder."""
    return Path(os.path.relpath(path, folder)).as_posix()
