"""One session of a run: its announcement, its log file, and its time."""

import hashlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from circuitax.config.planned_runs import PlannedRun
from circuitax.records.store import write_text

# Beside the file of the seconds while a session runs: how long it has run.
UNDER_WAY = "seconds-under-way"
# Between two notes of that.
BEAT_SECONDS = 5.0


def announcement(planned: PlannedRun, *, resumes: bool) -> str:
    """The first line of a session: the run, and its expected time.

    Args:
        planned: The run.
        resumes: Whether an earlier session left work that is resumed.
    """
    name, scale = planned.entry.name, planned.settings.scale.name
    expected = planned.entry.seconds(scale)
    parts = [f"{name} {planned.id} at {scale} scale" + (", resumed" if resumes else "")]
    if expected is not None:
        parts.append(f"about {_duration(expected)} expected on 2 cores")
    elif scale == "paper":
        parts.append("no time known for this scale (paper_seconds is not stated)")
    return ": ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.0f} days"


class LogFile(logging.FileHandler):
    """A log file that ignores a full disk; the computation reports the error, in one line."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Report errors of a message, and ignore those of the disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def flush(self) -> None:
        """Flush, ignoring errors of the disk."""
        with suppress(OSError):
            super().flush()

    def close(self) -> None:
        """Close the file, whether or not its buffer can be written."""
        with suppress(OSError):
            super().close()


@contextmanager
def log_to(logger: logging.Logger, path: Path) -> Iterator[None]:
    """Context in which a logger's messages also go to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        handler.close()


@contextmanager
def clock(path: Path, say: Callable[[str], None]) -> Iterator[Callable[[], float]]:
    """Seconds over all sessions of a run, saved in a file even when a session is stopped.

    A session that was killed counts until it last noted how long it had run, which it does every
    ``BEAT_SECONDS``: the times of files would be those of a clock that somebody may set.

    Args:
        path: The file; a damaged one counts as no time.
        say: Told if the file is damaged.
    """
    before = _seconds(path, say) + _seconds(path.with_name(UNDER_WAY), say)
    if before > 0:
        write_text(path, _checked(f"{before:.3f}"))
    path.with_name(UNDER_WAY).unlink(missing_ok=True)
    marker = path.with_name(UNDER_WAY)
    began = time.monotonic()
    total = [before]
    ended = threading.Event()

    def seconds() -> float:
        return total[0]

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            with suppress(OSError):  # of a full disk, which what is computed will say
                write_text(marker, _checked(f"{time.monotonic() - began:.3f}"))

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield seconds
    finally:
        ended.set()
        beating.join()
        total[0] = before + time.monotonic() - began
        write_text(path, _checked(f"{total[0]:.3f}"))
        marker.unlink(missing_ok=True)


def _seconds(path: Path, say: Callable[[str], None]) -> float:
    if not path.is_file():
        return 0.0
    text = path.read_text(encoding="utf-8", errors="replace")
    number = text.partition(" ")[0]
    if text != _checked(number):
        say(f"file {path.name!r} is damaged: the time of earlier sessions is not counted")
        return 0.0
    return float(number)


def _checked(number: str) -> str:
    return f"{number} {hashlib.sha256(number.encode()).hexdigest()}\n"
