"""Print the claims of a run with their verdicts: ``python -m experiments.claims RUN``."""

import textwrap
from collections.abc import Iterator
from typing import Any

from circuitax.commands.cli import WIDTH, Command, Option, refuse
from circuitax.lab.runs import newest_run, shown, verdicts
from circuitax.records.claim_texts import MARKS, counts_text, null_text, sentence, verdict_line
from circuitax.records.claims import HOLDS, VERDICTS, SettledClaim

COMMAND = Command(
    "claims",
    """\
Prints each claim of a run: number, verdict and n; its statement and source; the reason of the
verdict; and the outcome of its null. Those that do not hold come first. RUN is a run's folder,
NAME/RUN below results/, or an experiment's NAME for its newest run, the accepted one where none
was computed here.
""",
    ("RUN",),
    (Option("verdict", "VERDICT", "only claims with this one", allowed=VERDICTS),),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print the claims; exit status 2 when the run is missing or damaged."""
    try:
        run = newest_run(options["RUN"])
        found = verdicts(run)
    except ValueError as error:
        return refuse(error)
    asked = [one for one in found if options["verdict"] in ("", one.verdict)]
    for settled in sorted(asked, key=lambda one: one.verdict == HOLDS):
        print("\n".join(_lines(settled)))
    print(f"{shown(run)}: {counts_text([one.verdict for one in found]) or 'no claims'}")
    return 0


def _lines(settled: SettledClaim) -> Iterator[str]:
    claim = settled.claim
    yield f"{MARKS[settled.verdict]} {verdict_line(settled)}"
    below = {"": f"{sentence(claim.statement)} ({claim.source})", "null": null_text(settled)}
    if settled.estimate is not None and settled.reason:
        below["reason"] = sentence(settled.reason)
    for name, text in below.items():
        yield textwrap.fill(
            f"{name}: {text}" if name else text,
            WIDTH,
            initial_indent="    ",
            subsequent_indent="      ",
            break_on_hyphens=False,
        )
