"""Checksums of files, and of an input file or folder, which may change between runs."""

import hashlib
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
