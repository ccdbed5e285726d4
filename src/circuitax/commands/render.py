"""Draw a run's figures again from disk, without JAX: ``python -m experiments.render RUN ...``."""

import sys

from circuitax.commands.options import disk_in_one_line, refuse
from circuitax.config.catalogue import discover, no_experiment
from circuitax.lab.drawing import draw_figures
from circuitax.lab.places import in_one_line
from circuitax.lab.runs import named_runs, provenance, shown, whole

HELP = """\
usage: python -m experiments.render RUN ...

RUN is a run's folder, NAME/RUN below results/, or an experiment's NAME for all its runs.
"""


@disk_in_one_line
def main(arguments: list[str] | None = None) -> int:
    """Draw each run; exit status 1 when a figure fails, 2 when a run is missing or damaged."""
    typed = sys.argv[1:] if arguments is None else arguments
    if not typed or {"-h", "--help"} & set(typed):
        print(HELP, end="")
        return 0 if typed else 2
    try:
        entries = discover()
        runs = [whole(run) for item in typed for run in named_runs(item)]
        of = []
        for run in runs:
            name = provenance(run)["experiment"]
            if name not in entries:
                raise ValueError(
                    f"experiment={name} of {shown(run)} {no_experiment(name, entries)}"
                )
            of.append(entries[name])
    except ValueError as error:
        return refuse(error)
    failed = 0
    for run, entry in zip(runs, of, strict=True):
        try:
            for path in draw_figures(run, entry):
                print(shown(path))
        except Exception as error:  # the other runs go on
            print(f"error: {shown(run)}: {in_one_line(error)}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0
