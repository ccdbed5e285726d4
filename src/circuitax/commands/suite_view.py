"""A running suite on a screen: a bar for each experiment on a terminal, plain lines in a log."""

import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tqdm import tqdm

from circuitax.lab.progress import Stream
from circuitax.lab.runs import shown

# File beside an experiment's status that keeps all it said.
SAID = "said.txt"
_BAR = "  |{bar:20}| {desc}"


class Lines:
    """Events of a suite as plain lines, those of experiments behind their names.

    Args:
        named: Whether lines of experiments begin with their names.
    """

    def __init__(self, named: bool) -> None:
        self.named = named

    def coming(self, text: str) -> None:
        """Progress of the suite, before an experiment starts."""
        self.say(text)

    def began(self, name: str, folder: Path) -> None:
        """An experiment starts.

        Args:
            name: Its name.
            folder: Where its process leaves its status.
        """

    def line(self, name: str, text: str) -> None:
        """One line that an experiment prints."""
        self.say(f"{name}: {text}")

    def tick(self) -> None:
        """Redraw the view; called several times a second."""

    def close(self) -> None:
        """End the view, after the last experiment."""

    def ended(self, name: str, text: str, failed: bool) -> None:
        """An experiment has ended.

        Args:
            name: Its name.
            text: How it ended, one line.
            failed: Whether a terminal shows what it said last.
        """
        self.say(text)

    def say(self, text: str) -> None:
        """Print lines of the suite itself."""
        print(text, flush=True)


class Bars(Lines):
    """A bar for each running experiment, and one line for each that has ended.

    The bar fills with the expected time. All that experiments print goes to a file beside their
    status; the last line of it stands behind the bar.

    Args:
        stream: The terminal.
        seconds: Expected of each experiment; None where that is unknown.
    """

    def __init__(self, stream: Stream, seconds: Mapping[str, float | None]) -> None:
        super().__init__(named=True)
        self._stream, self._seconds = stream, seconds
        self._bars: dict[str, tqdm] = {}
        self._began: dict[str, float] = {}
        self._last: dict[str, str] = {}
        self._files: dict[str, Path] = {}
        self._whole = tqdm(bar_format="{desc}", leave=False, file=stream)
        self._lock = threading.Lock()  # each experiment's lines come from a thread of their own

    def coming(self, text: str) -> None:
        with self._lock:
            self._whole.set_description_str(f"  {text}")

    def began(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._files[name], self._began[name] = folder / SAID, time.monotonic()
        total = self._seconds.get(name)
        with self._lock:
            self._bars[name] = tqdm(
                total=total, bar_format=_BAR, leave=False, file=self._stream, dynamic_ncols=True
            )
        self.tick()

    def line(self, name: str, text: str) -> None:
        with self._files[name].open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        self._last[name] = text.removeprefix(f"{name}: ").strip()

    def tick(self) -> None:
        with self._lock:
            for name, bar in self._bars.items():
                passed = time.monotonic() - self._began[name]
                bar.n = passed if bar.total is None else min(passed, bar.total)
                left = "" if bar.total is None else f", {max(0.0, bar.total - passed):.0f} s left"
                said = self._last.get(name, "")
                bar.set_description_str(f"{name}  {passed:.0f} s{left}  {said}"[: _columns()])

    def ended(self, name: str, text: str, failed: bool) -> None:
        with self._lock:
            if name in self._bars:
                self._bars.pop(name).close()
        self.say(text)
        if failed and name in self._files:
            if last := self._last.get(name):
                self.say(f"    {last}")
            self.say(f"    {shown(self._files[name])}")

    def close(self) -> None:
        with self._lock:
            for bar in (*self._bars.values(), self._whole):
                bar.close()

    def say(self, text: str) -> None:
        with self._lock:
            tqdm.write(text, file=self._stream)


def suite_view(named: bool, seconds: Mapping[str, float | None]) -> Lines:
    """Bars where standard output is a terminal, lines elsewhere.

    Args:
        named: Whether lines of experiments begin with their names.
        seconds: Expected of each experiment; None where that is unknown.
    """
    return Bars(sys.stdout, seconds) if sys.stdout.isatty() else Lines(named)


def _columns() -> int:
    """Characters beside the bar, so that no line of the terminal is broken."""
    return max(20, shutil.get_terminal_size().columns - 28)
