"""List finished runs: ``python -m experiments.runs [NAME]``."""

import json
import time
from functools import cache
from pathlib import Path
from typing import Any

from circuitax.commands.cli import Command, wanted
from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.lab.runs import (
    ACCEPTED,
    PROVENANCE,
    differing,
    finished_runs,
    flat,
    provenance,
    results_folder,
    settled_rows,
    spec_fields,
)
from circuitax.records.ledger import counts_text
from circuitax.records.rows import SettledRow

COMMAND = Command(
    "runs",
    """\
Lists the finished runs of an experiment, or of all that have one, the oldest first and the accepted
one last: date, scale, what differs from the present defaults at that scale, n (the fewest and the
most independent units behind a number), the words of published results, and the size on disk.
""",
    ("[NAME]",),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print a line for each run."""
    entries = discover()
    for name in wanted(options["NAME"], entries):
        accepted = results_folder() / name / ACCEPTED
        runs = [*finished_runs(name), *[accepted] * (accepted / PROVENANCE).is_file()]
        if runs or options["NAME"]:
            print(f"{name}: {entries[name].title}" if runs else f"{name} has no finished run")
        for run in runs:
            print(f"  {_line(run, entries)}")
    return 0


def _line(run: Path, entries: dict[str, ExperimentEntry]) -> str:
    try:
        facts, own, rows = provenance(run), spec_fields(run), settled_rows(run)
    except (OSError, ValueError) as error:
        return f"{run.name}  {error}"
    own |= {"seed": facts["seed"], "dtype": facts["dtype"]}
    fields = [
        f"{key}={json.dumps(own[key])}" if key in own else f"without {key}"
        for key in differing(own, _defaults(facts["experiment"], facts["scale"]))
    ]
    size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    return "  ".join(
        filter(
            None,
            [
                f"{run.name:12}",
                time.strftime("%Y-%m-%d %H:%M", time.localtime((run / PROVENANCE).stat().st_mtime)),
                f"{facts['scale']:7}",
                f"{size / 2**20:.1f} MB",
                _n_text(rows),
                counts_text(rows),
                ", ".join(fields) or "defaults",
            ],
        )
    )


def _n_text(rows: list[SettledRow]) -> str:
    known = [q.estimate.n for row in rows for q in row.quantities if q.estimate is not None]
    if not known:
        return ""
    return f"n = {min(known)}" + (f" to {max(known)}" if max(known) > min(known) else "")


@cache
def _defaults(name: str, scale: str) -> dict[str, Any]:
    """Fields of a run with nothing else typed."""
    # These import JAX.
    from circuitax.config.plan import plan
    from circuitax.config.spec import canonical

    planned = plan([f"experiment={name}", f"scale={scale}"], discover())[1][0]
    settings = {"seed": planned.settings.seed, "dtype": planned.settings.dtype.name}
    return flat(canonical(planned.spec)) | settings
