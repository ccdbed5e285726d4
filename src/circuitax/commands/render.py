"""Draw a run's figures again from disk, without JAX: ``python -m experiments.render RUN ...``."""

import sys
from typing import Any

from circuitax.commands.cli import Command
from circuitax.config.catalogue import discover, no_experiment
from circuitax.lab.drawing import draw_figures
from circuitax.lab.runs import in_one_line, named_runs, provenance, shown, whole

COMMAND = Command(
    "render",
    """\
RUN is a run's folder, NAME/RUN below results/, or an experiment's NAME for all its runs.
""",
    ("RUN ...",),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Draw each run; exit status 1 when a figure fails, 2 when a run is missing or damaged."""
    entries = discover()
    runs = [whole(run) for item in options["RUN"] for run in named_runs(item)]
    names = [provenance(run)["experiment"] for run in runs]
    for run, name in zip(runs, names, strict=True):
        if name not in entries:
            raise ValueError(f"experiment={name} of {shown(run)} {no_experiment(name, entries)}")
    failed = 0
    for run, name in zip(runs, names, strict=True):
        try:
            for path in draw_figures(run, entries[name]):
                print(shown(path))
        except Exception as error:  # the other runs go on
            print(f"error: {shown(run)}: {in_one_line(error)}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0
