"""Draw a run's figures again from disk, without JAX: ``python -m experiments.render RUN ...``."""

import sys
import tomllib
from pathlib import Path
from typing import Any

from circuitax.commands.cli import Command, Option
from circuitax.config.catalogue import discover, no_experiment
from circuitax.lab.drawing import draw_figures, draw_restyled
from circuitax.lab.runs import in_one_line, named_runs, provenance, shown, whole

FOLDER = "figures"

COMMAND = Command(
    "render",
    """\
RUN is a run's folder, NAME/RUN below results/, or an experiment's NAME for all its runs. With a
style, labels or a folder the figures of the run stay as they are, and others go to
FOLDER/NAME-RUN/. A style of Matplotlib with axes.prop_cycle has other colours in the place of the
eight of figures/palette.py, in their order.
""",
    ("RUN ...",),
    (
        Option("style", "FILE.mplstyle", "sizes, fonts and colours, on top of the common style"),
        Option("labels", "FILE.toml", 'texts of figures that read otherwise: "old" = "new"'),
        Option("folder", "FOLDER", f"where restyled figures go; {FOLDER} by default"),
    ),
)

_RESTYLE = ("style", "labels", "folder")


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Draw each run; exit status 1 when a figure fails, 2 when a run is missing or damaged."""
    entries = discover()
    runs = [whole(run) for item in options["RUN"] for run in named_runs(item)]
    names = [provenance(run)["experiment"] for run in runs]
    for run, name in zip(runs, names, strict=True):
        if name not in entries:
            raise ValueError(f"experiment={name} of {shown(run)} {no_experiment(name, entries)}")
    style = _file("style", options["style"]) if options["style"] else None
    labels = _labels(options["labels"]) if options["labels"] else {}
    place = Path(options["folder"] or FOLDER) if any(map(options.get, _RESTYLE)) else None
    failed = 0
    for run, name in zip(runs, names, strict=True):
        try:
            if place is None:
                paths = draw_figures(run, entries[name])
            else:
                folder = place / f"{name}-{run.name}"
                paths = draw_restyled(run, entries[name], folder, style, labels)
            for path in paths:
                print(shown(path))
        except Exception as error:  # the other runs go on
            print(f"error: {shown(run)}: {in_one_line(error)}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def _file(option: str, name: str) -> Path:
    if not (path := Path(name)).is_file():
        raise ValueError(f"{option}={name} must be a file: there is none")
    return path


def _labels(name: str) -> dict[str, str]:
    try:
        return tomllib.loads(_file("labels", name).read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"labels={name} must be TOML: {error}") from error
