"""Metrics of runs as event files of TensorBoard: ``python -m experiments.events run=NAME/RUN``."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from circuitax.commands.options import Command, Option, refuse
from circuitax.config.schema import ConfigError
from circuitax.lab.metric_lines import METRICS, metric_lines
from circuitax.lab.runs import PROVENANCE, named_runs, results_folder, shown, whole

COMMAND = Command(
    "events",
    """\
Writes what a run measured while it trained (its metrics.jsonl) as event files, which TensorBoard
shows: tensorboard --logdir FOLDER. Nothing is sent anywhere. Needs the extra tensorboard
(pip install -e ".[tensorboard]").
""",
    options=(
        Option(
            "run",
            "NAME/RUN",
            "the folder of a run, NAME/RUN below results/, or NAME for all runs of an experiment; "
            "the folder of a run under way, below results/.work/, does too",
        ),
        Option("into", "FOLDER", "where they go, a folder for each run; results/events by default"),
    ),
    needed=True,
)
_OWN = {"loop", "chunk", "seconds"}  # entries of a line that are no metric


class Scalar(NamedTuple):
    """A number of one chunk of a loop; ``seconds`` counts from the first line of the file."""

    tag: str
    chunk: int
    value: float
    seconds: float


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Write the event files and say where; exit status 2 when there is nothing to write."""
    try:
        if not options["run"]:
            raise ConfigError("run is missing: give run=NAME/RUN")
        into = (
            Path(os.path.realpath(options["into"]))
            if options["into"]
            else results_folder() / "events"
        )
        for run in _runs(options["run"]):
            # Runs under way are in a hidden folder, which TensorBoard need not read.
            place = into / run.parent.name.removeprefix(".") / run.name
            print(shown(write_events(run, place)))
    except ValueError as error:
        return refuse(error)
    return 0


def _runs(item: str) -> list[Path]:
    here = Path(os.path.realpath(item))
    if (here / METRICS).is_file() and not (here / PROVENANCE).is_file():  # it is under way
        return [here]
    return [whole(run) for run in named_runs(item)]


def write_events(run: Path, folder: Path) -> Path:
    """Write the metrics of a run into a folder, replacing older event files.

    Args:
        run: Folder with ``metrics.jsonl``.
        folder: Made if it is missing.

    Raises:
        ValueError: If the run has no metrics, as accepted ones have none, or the writer is missing.
    """
    rows = list(scalars_of(run))
    if not rows:
        raise ValueError(
            f"run={shown(run)} must have trained and kept {METRICS}: accepted runs do not keep it"
        )
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            'tensorboardX must be installed to write event files: pip install -e ".[tensorboard]"'
        ) from None
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    # TensorBoard counts time from a run's first event; the last one is when the file was written.
    began = (run / METRICS).stat().st_mtime - rows[-1].seconds
    with SummaryWriter(str(folder)) as writer:
        for row in rows:
            writer.add_scalar(row.tag, row.value, row.chunk, walltime=began + row.seconds)
    return folder


def scalars_of(run: Path) -> Iterator[Scalar]:
    """The numbers of ``metrics.jsonl``, named ``loop/metric`` and ``loop/metric/min``.

    A loop logs a line for each chunk of its steps, with the mean of every metric over the members
    of the ensemble, and their least and greatest value; what was not finite is left out.

    Args:
        run: Folder of a run; there is nothing in one without the file.
    """
    seconds = 0.0
    for _, row in metric_lines(run / METRICS):
        if row is None:  # the last line, of a run under way
            continue
        seconds += row["seconds"]
        for name, summary in row.items():
            if name in _OWN:
                continue
            for part in ("mean", "min", "max"):
                if (value := summary.get(part)) is not None:
                    tag = f"{row['loop']}/{name}" + ("" if part == "mean" else f"/{part}")
                    yield Scalar(tag, row["chunk"], value, seconds)
