"""Abandoned work: unfinished runs that nobody has resumed.

A stopped run is resumed by the command that began it. Once a field of its experiment, a text or a
library has changed, that command asks for a run of another name, and the work would stay for ever.
"""

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from circuitax.lab.busy import Busy, held

# Longer than anybody is expected to stay away from a run that was stopped.
WORK_DAYS = 90.0
_IDENTITY = re.compile(r"[0-9a-f]{12}")  # as `config.identity.run_id` writes it


def remove_abandoned(folder: Path, days: float, say: Callable[[str], object]) -> list[str]:
    """Remove work that no process computes and nobody has touched for some days.

    Args:
        folder: The work folder; what else lies in it stays. It may be missing.
        days: Age of its youngest file from which on work goes, not negative.
        say: Told in one line what was removed, if anything was.

    Returns:
        The identities of the runs, in order.

    Raises:
        OSError: If the file system has no locks.
    """
    removed = []
    limit = time.time() - days * 86_400
    for work in sorted(folder.iterdir()) if folder.is_dir() else []:
        if not (_IDENTITY.fullmatch(work.name) and work.is_dir()) or _touched(work) >= limit:
            continue
        try:
            with held(work.with_suffix(".lock"), f"run {work.name}"):
                if _touched(work) < limit:  # still, now that no other process can begin
                    shutil.rmtree(work, ignore_errors=True)
                    removed.append(work.name)
        except Busy:
            continue
    if removed:
        say(
            f"removed unfinished work that nobody touched for {days:.0f} days, of "
            f"{len(removed)} {'run' if len(removed) == 1 else 'runs'}: {', '.join(removed)}"
        )
    return removed


def _touched(work: Path) -> float:
    """Time of the latest write to some work."""
    try:
        return max(path.lstat().st_mtime for path in (work, *work.rglob("*")))
    except FileNotFoundError:  # its process is at work, or it was published just now
        return float("inf")
