"""The stop flag: a signal sets it, the next border between chunks obeys it."""

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
        """What the shell expects of a process ended by this signal: 130 or 143."""
        return 128 + self.number


class StopFlag:
    """Within its block, the first SIGINT or SIGTERM sets ``number`` and does nothing else.

    The handler runs in the middle of a chunk, while the state is donated: there is nothing to
    save there. A second signal acts as it would have without the flag.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopFlag":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
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
        self.number = number
        self._restore()
        os.write(2, b"\nstopping at the next border between chunks; once more to stop at once\n")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
