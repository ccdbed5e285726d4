"""Draw a run's figures again from disk, without JAX: ``python -m experiments.render RUN ...``."""

import sys
from typing import Any

from circuitax.commands.options import Command, refuse
from circuitax.config.catalogue import discover
from circuitax.lab.drawing import draw_figures
from circuitax.lab.places import in_one_line
from circuitax.lab.runs import named_runs, provenance, shown, whole

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
    try:
        entries = discover()
        runs = [whole(run) for item in options["RUN"] for run in named_runs(item)]
        of = [entries[provenance(run)["experiment"]] for run in runs]
    except ValueError as error:
        return refuse(error)
    except KeyError as error:
        return refuse(ValueError(f"experiment {error} of the run does not exist any more"))
    failed = 0
    for run, entry in zip(runs, of, strict=True):
        try:
            for path in draw_figures(run, entry):
                print(shown(path))
        except Exception as error:  # the other runs go on
            print(f"error: {shown(run)}: {in_one_line(error)}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0
