"""The stop flag: set by a signal, obeyed at the next boundary between chunks."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Whoever stops a whole group of processes (a cluster, a service manager) reaches a process and the
# one that started it, which passes the signal on: two signals within so many seconds are one.
TOGETHER_SECONDS = 1.0


class Stopped(BaseException):
    """The run was asked to stop and has saved its state; the same command resumes it.

    Not an ``Exception``, so that neither an experiment nor Hydra takes it for a failed job and
    goes on with the next.

    Args:
        number: The signal's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_status(self) -> int:
        """Exit status of a process ended by this signal: 130 or 143."""
        return 128 + self.number


class StopFlag:
    """Context in which the first SIGINT or SIGTERM sets ``number`` and does nothing else.

    The handler runs in the middle of a chunk, while the state is donated: there is nothing to
    save there. A second signal, unless it comes at once, acts as it would have without the flag.

    Args:
        signals: The signals that set the flag.
        announce: Whether to tell the person who sent the signal what happens now. A process that
            was stopped by the one that started it stays silent.
        patience: Seconds after the first signal within which others do nothing; not negative.
    """

    def __init__(
        self,
        signals: Sequence[signal.Signals] = SIGNALS,
        announce: bool = True,
        patience: float = TOGETHER_SECONDS,
    ) -> None:
        self.number: int | None = None
        self._signals = signals
        self._announce = announce
        self._patience = patience
        self._noted: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopFlag":
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def raise_if_set(self) -> None:
        """Raise ``Stopped`` if a signal has come."""
        if self.number is not None:
            raise Stopped(self.number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._noted is not None:
            if now - self._noted >= self._patience:
                self._restore()
                signal.raise_signal(number)
            return
        self._noted = now
        if self.number is None:
            self.number = number
        if self._announce:
            text = b"\nstopping at the next border between chunks; once more to stop at once\n"
            os.write(2, text)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


@contextmanager
def withheld(signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[None]:
    """Context whose child processes block these signals until they ask for them.

    A terminal sends Ctrl-C to every process of a command. One that was started in this block is
    left alone, so that the process that started it alone decides what to stop, and when. Signals
    that reach this process in the meantime are delivered at the end of the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def receive(signals: Sequence[signal.Signals]) -> None:
    """Unblock signals withheld from this process; a pending one is delivered now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
