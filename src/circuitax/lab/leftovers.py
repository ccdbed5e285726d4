"""Leftovers of earlier commands: Hydra's folders expire by age, compiled code by size.

Work under way is never touched here: it is resumed by the command that began it. What nobody came
back to for long goes in ``abandoned.py``.
"""

import shutil
import time
from pathlib import Path

# Folders with the logs and the composed configuration of single commands; the runs are elsewhere.
LOGS_DAYS = 30.0
# Compiled code of all experiments at quick scale takes about a quarter of this.
CODE_BYTES = 500_000_000


def remove_older(folder: Path, days: float) -> int:
    """Remove a folder's entries unchanged for some days; returns their number.

    Args:
        folder: Its entries are looked at, not those below; it may be missing.
        days: Age from which on an entry goes, not negative.
    """
    limit = time.time() - days * 86_400
    old = [path for path in _entries(folder) if _changed(path) < limit]
    for path in old:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return len(old)


def remove_beyond(folder: Path, n_bytes: int) -> int:
    """Remove the least recently used files of a folder until the rest fits; returns their number.

    Args:
        folder: Its own files are looked at; it may be missing.
        n_bytes: Most that may stay, not negative.
    """
    sizes = {}
    for path in _entries(folder):
        try:
            facts = path.stat()
        except FileNotFoundError:  # another process was first
            continue
        sizes[path] = (max(facts.st_atime, facts.st_mtime), facts.st_size)
    total = sum(size for _, size in sizes.values())
    removed = 0
    for path, (_, size) in sorted(sizes.items(), key=lambda item: item[1]):
        if total <= n_bytes:
            break
        path.unlink(missing_ok=True)
        total -= size
        removed += 1
    return removed


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return float("inf")
