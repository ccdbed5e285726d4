"""Checksums of files and folders, and the user's cache of what is safe to delete."""

import errno
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ABSENT = "absent"


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(path: str | Path) -> str:
    """SHA-256 of the content of a file, or of the names and contents of all files of a folder."""
    place = Path(path).expanduser()
    try:
        if place.is_file():
            return checksum(place)
        if not place.is_dir():
            return ABSENT
        digest = hashlib.sha256()
        for item in sorted(place.rglob("*")):
            name = item.relative_to(place)
            if item.is_file() and not any(part.startswith(".") for part in name.parts):
                digest.update(f"{name.as_posix()}\0{checksum(item)}\n".encode())
        return digest.hexdigest()
    except OSError:
        return ABSENT


_log = logging.getLogger(__name__)
_MARK = ".sha256"  # hidden, so that it is no part of what it is the checksum of


class CacheError(ValueError):
    """The cache folder cannot be written."""


def cache_folder() -> Path:
    """``$CIRCUITAX_CACHE``, else ``$XDG_CACHE_HOME/circuitax``, else ``~/.cache/circuitax``."""
    if own := os.environ.get("CIRCUITAX_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "circuitax"


def write_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Create the folder ``target`` atomically unless it is already complete."""
    if _whole(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise _not_written(target, error) from error
    try:
        if target.exists() and not _whole(target):
            _log.warning("%s in the cache is damaged and is made again", target.name)
            with suppress(FileNotFoundError):  # another process has just moved it away
                os.replace(target, work / "damaged")
        (work / "new").mkdir()
        write(work / "new")
        (work / "new" / _MARK).write_text(fingerprint(work / "new"))
        _move(work / "new", target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):  # else it is about what is read
            raise
        raise _not_written(target, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _not_written(target: Path, error: OSError) -> CacheError:
    return CacheError(
        f"cache folder {str(target.parent)!r} cannot be written ({error.strerror}): make room, or "
        "name another with CIRCUITAX_CACHE=FOLDER"
    )


def _whole(target: Path) -> bool:
    try:
        return (target / _MARK).read_text() == fingerprint(target)
    except (OSError, UnicodeDecodeError):
        return False


def _move(new: Path, target: Path) -> None:
    try:
        os.replace(new, target)
    except OSError:
        # A folder cannot replace a folder that is not empty: another process was first.
        if not target.is_dir():
            raise
