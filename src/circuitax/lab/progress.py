"""Progress as a bar on a terminal, elsewhere as an occasional line."""

import sys
import time
from io import TextIOBase
from typing import Any, TextIO

from tqdm import tqdm

Stream = TextIO | TextIOBase
# Seconds between two lines where there is no terminal.
LINE_SECONDS = 30.0


class Progress:
    """Rate, remaining time and one metric of a loop, outside the compiled code.

    Args:
        name: What is shown before the bar.
        total: Rounds of the loop; None when unknown.
        start: Rounds done in an earlier session.
        unit: What a round is called.
        stream: Where to write; standard error when None.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        start: int = 0,
        unit: str = "chunk",
        stream: Stream | None = None,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._name, self._total, self._unit = name, total, unit
        self._start = self._done = start
        self._began = self._said = time.monotonic()
        self._bar: Any = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=total, initial=start, desc=name, unit=unit, file=self._stream, leave=False
            )

    def advance(self, shown: str = "") -> None:
        """Count one iteration.

        Args:
            shown: The number to show, such as ``"loss 0.0123"``.
        """
        self._done += 1
        if self._bar is not None:
            self._bar.set_postfix_str(shown, refresh=False)
            self._bar.update()
        elif time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            self._stream.write(self._line(shown) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()

    def _line(self, shown: str) -> str:
        rate = (self._done - self._start) / (time.monotonic() - self._began)
        parts = [f"{self._name}: {self._done}/{self._total or '?'} {self._unit}s"]
        parts.append(f"{rate:.2g} {self._unit}s/s")
        if self._total is not None:
            parts.append(f"{(self._total - self._done) / rate:.0f} s left")
        return ", ".join([*parts, *filter(None, [shown])])
