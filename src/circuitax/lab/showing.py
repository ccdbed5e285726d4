"""One run of an experiment as the gallery, the claims page and the report show it."""

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from circuitax.config.catalogue import CLAIMS, MEASURES, ExperimentEntry
from circuitax.config.showcase import FigureText, read_showcase
from circuitax.lab.measured_line import line_that_measures
from circuitax.lab.runs import ACCEPTED, WholeRun, figures, provenance
from circuitax.lab.twin_files import checked_twin
from circuitax.records.chapters import GALLERY, chapter_of
from circuitax.records.claims import Claim, Verdict
from circuitax.records.claims_table import ClaimRow
from circuitax.records.gallery import GalleryFigure, GalleryItem
from circuitax.records.twin import DIFFERENT, NOT_COMPUTED, ROUNDED, SAME

# Files of an experiment that say something and measure nothing.
_SAID = re.compile("claim|figure|viewer|__init__")
_UNTOLD = FigureText("", "", "", "")
OUTDATED = "computed by older code whose numbers differ"


def gallery_item(
    run: WholeRun,
    entry: ExperimentEntry,
    verdicts: Sequence[Verdict],
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
    facts, showcase = provenance(run), read_showcase(entry)
    order = list(showcase.figures)
    pictures = sorted(
        figures(run),
        key=lambda path: order.index(path.stem) if path.stem in order else len(order),
    )
    again = {} if made in (None, run) else {path.name: path for path in figures(made)}
    shown = []
    for path in pictures:
        text = showcase.figures.get(path.stem, _UNTOLD)
        pdf = path.with_suffix(".pdf")
        # Git keeps no PDF of an accepted run, so that its tracked pages must not lead to one.
        printed = run.name != ACCEPTED and pdf.is_file()
        shown.append(
            GalleryFigure(
                name=path.stem,
                png=relative(path, folder),
                pdf=relative(pdf, folder) if printed else "",
                message=text.message or text.drawn,
                caption=text.caption,
                refuted=text.refuted,
                here=relative(again[path.name], folder) if path.name in again else "",
                alt=f"{entry.name}, {path.stem}: {text.drawn or text.message or entry.message}",
            )
        )
    return GalleryItem(
        experiment=entry.name,
        message=entry.message,
        chapter=entry.chapter,
        place=entry.place,
        flagship=showcase.flagship,
        scale=facts["scale"],
        seconds=facts["seconds"],
        command=facts["command"],
        link=relative(run, folder),
        figures=tuple(shown),
        verdicts=tuple(verdicts),
        origin=origin(run),
    )


def claim_rows(
    run: WholeRun,
    entry: ExperimentEntry,
    verdicts: Sequence[Verdict],
    top: Path,
    folder: Path | None = None,
) -> list[ClaimRow]:
    """What the pages of claims say about a run.

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
            verdict,
            entry.name,
            facts["scale"],
            facts["run"],
            relative(run, folder),
            figure,
            _code(entry, verdict.claim, folder),
            OUTDATED if checked_twin(run).get("outcome") == DIFFERENT else "",
        )
        for verdict in verdicts
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
    """Address of the line that measures a claim."""
    first = next(entry.file(part) for part in (MEASURES, CLAIMS) if entry.file(part).is_file())
    # Claims name their quantities too, and figures what they draw.
    beside = [path for path in sorted(first.parent.glob("*.py")) if not _SAID.search(path.stem)]
    # Where several experiments measure alike, that is a function of the library.
    shared = Path(inspect.getfile(inspect.unwrap(entry.load_measure())))
    path, number = line_that_measures(claim.quantity, [first, *beside, shared])
    return f"{relative(path, folder)}#L{number}"


def relative(path: Path, folder: Path) -> str:
    """Address of a file, seen from a folder."""
    return Path(os.path.relpath(path, folder)).as_posix()
