"""One process at a time computes a run: a lock file that names the process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from circuitax.lab.places import about_the_place


class Busy(RuntimeError):
    """Another living process computes the same run."""


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file for the length of the block.

    The operating system releases the lock when its process ends, however it ends, so a file that
    was left behind holds nothing. The file contains the number of the process, for the message.

    Args:
        path: The lock file; the block makes it and removes it.
        what: What is being computed, for the message.

    Raises:
        Busy: If a living process holds the lock.
        OSError: If the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise Busy(
            f"{what} is being computed by {_holder(path)}; wait for it, or stop it and run the "
            "same command to resume"
        ) from error
    except OSError as error:
        if about_the_place(error):  # it takes no file at all
            raise
        raise OSError(
            f"{what} needs a file system with locks, which {path.parent.name!r} is not on "
            f"({error.strerror}): name another folder with CIRCUITAX_RESULTS"
        ) from error
    try:
        with suppress(OSError):  # of a full disk, which what is computed will say better
            path.write_text(str(os.getpid()))
        yield
    finally:
        # Removed while it is held: a process that waits for this file sees that it is gone.
        path.unlink(missing_ok=True)
        lock.release()


def _holder(path: Path) -> str:
    try:
        number = path.read_text(errors="replace")
    except OSError:  # it was released just now
        number = ""
    return f"process {number}" if number else "another process"
