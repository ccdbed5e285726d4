"""A user's folder for what is expensive to compute and safe to delete: tokenizers, token arrays."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """``$CIRCUITAX_CACHE``, else ``$XDG_CACHE_HOME/circuitax``, else ``~/.cache/circuitax``."""
    if own := os.environ.get("CIRCUITAX_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "circuitax"


def write_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Make ``target`` unless it exists; readers see all of it or nothing.

    ``write`` fills a fresh temporary path (a file or a folder) beside the target, which is then
    renamed. Threads and processes may do so at once: each writes its own copy, the first rename
    wins, and the copies are equal since contents are named by their hash.

    Args:
        target: Where the result goes; its parents are made.
        write: Called with a path that does not exist yet, in a folder that does.

    Returns:
        ``target``.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        write(work / "new")
        _move(work / "new", target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _move(new: Path, target: Path) -> None:
    try:
        os.replace(new, target)
    except OSError:
        # A folder cannot replace a folder that is not empty: another process was first.
        if not target.is_dir():
            raise
