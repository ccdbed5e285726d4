"""``metrics.jsonl`` of a run: a line for each chunk of a loop, readable while the run goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

METRICS = "metrics.jsonl"


class MetricLine(NamedTuple):
    """A line as it stands, and what it says; None where it cannot be read."""

    text: str
    row: dict[str, Any] | None


def metric_lines(path: Path) -> Iterator[MetricLine]:
    """The lines of the file, of which the last may be cut short; none where there is no file.

    A line that can be read has a ``loop``, a ``chunk``, its ``seconds``, and the mean, least and
    greatest value of each metric.
    """
    data = path.read_bytes() if path.is_file() else b""
    for line in data.split(b"\n"):
        if line:
            yield MetricLine(line.decode(errors="replace"), _row(line))


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
        kinds = (type(row["loop"]), type(row["chunk"]), type(row["seconds"]))
    except (ValueError, TypeError, KeyError):
        return None
    others = [value for name, value in row.items() if name not in ("loop", "chunk", "seconds")]
    whole = kinds in ((str, int, float), (str, int, int)) and all(type(o) is dict for o in others)
    return row if whole else None
