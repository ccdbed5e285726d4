"""One process at a time on one run."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Busy(RuntimeError):
    """Another living process computes the same run."""


@contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file for the length of the block.

    The kernel releases the lock of a process that dies, however it dies, so a file left behind
    means nothing; its text, the process number, is for the message only.

    Args:
        path: The lock file, made and removed here.
        what: What is being computed, for the message.

    Raises:
        Busy: If a living process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _acquire(path, what)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        yield
        path.unlink(missing_ok=True)  # while held: the next comer makes a new file
    finally:
        os.close(descriptor)


def _acquire(path: Path, what: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The holder before us may have removed the file between our two calls.
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode() or "another process"
            os.close(descriptor)
            raise Busy(
                f"{what} is being computed by process {holder}; wait for it, or stop it and "
                "run the same command to resume"
            ) from error
        os.close(descriptor)
