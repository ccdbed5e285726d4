"""Time profile of a run: seconds of compiling, drawing and computing.

They are apart from ``provenance.json``, which is written before the figures are drawn, and runs
made by earlier versions have none.
"""

import json
from pathlib import Path

from circuitax.lab.runs import TIMES
from circuitax.records.store import write_json

COMPILING, DRAWING = "compiling", "drawing"


def times_of(run: Path) -> dict[str, float]:
    """Seconds by name, of the last session with any for each; empty if unknown."""
    try:
        return dict(json.loads((run / TIMES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def keep_time(run: Path, name: str, seconds: float) -> None:
    """Write the seconds of one part beside those of the others.

    Args:
        run: Folder of the run.
        name: `COMPILING` or `DRAWING`.
        seconds: Not negative.
    """
    write_json(run / TIMES, times_of(run) | {name: round(seconds, 2)})
