"""Print the rows of a run with their words: ``python -m experiments.claims RUN``."""

import textwrap
from collections.abc import Iterator
from typing import Any

from circuitax.commands.cli import WIDTH, Command, Option
from circuitax.lab.runs import newest_run, settled_rows, shown
from circuitax.records.ledger import (
    MARKS,
    control_text,
    counts_text,
    estimate_text,
    printed_text,
)
from circuitax.records.rows import SettledRow
from circuitax.records.rule import REPRODUCED, WORDS

COMMAND = Command(
    "claims",
    """\
Prints each result of a run: its word, the sentence, and the quantities behind it with what is
printed, ours and the control's. Those that are not reproduced come first. RUN is a run's folder,
NAME/RUN below results/, or an experiment's NAME for its newest run, the accepted one where none
was computed here.
""",
    ("RUN",),
    (Option("word", "WORD", "only results with this word", allowed=WORDS),),
)


@COMMAND.entry
def main(options: dict[str, Any]) -> int:
    """Print the rows; exit status 2 when the run is missing or damaged."""
    run = newest_run(options["RUN"])
    found = settled_rows(run)
    asked = [row for row in found if options["word"] in ("", row.word)]
    for settled in sorted(asked, key=lambda row: row.word == REPRODUCED):
        print("\n".join(_lines(settled)))
    print(f"{shown(run)}: {counts_text(found) or 'no published results'}")
    return 0


def _lines(settled: SettledRow) -> Iterator[str]:
    row = settled.row
    why = f" ({settled.why})" if settled.why else ""
    word = settled.word or "beside"
    yield _wrapped(f"{MARKS[settled.word]} {word}: {row.says}{why}", "", "  ")
    for each in settled.quantities:
        told = f"{each.quantity.id}: {each.quantity.says}: {estimate_text(each.estimate)}"
        told += f"; printed: {printed_text(each)}; control: {control_text(each)}"
        yield _wrapped(f"{told}; {each.word}" if each.word else told, "    ", "      ")


def _wrapped(text: str, first: str, then: str) -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )
