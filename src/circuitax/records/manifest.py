"""Checksums of the files of a folder, so that damage is found before the files are used."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from circuitax.records.store import write_json

MANIFEST = "manifest.json"


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The checksum of each named file of a folder, an empty text where there is no such file."""
    paths = {name: folder / name for name in names}
    return {name: checksum(path) if path.is_file() else "" for name, path in paths.items()}


def write_manifest(folder: Path, left_out: Iterable[str] = ()) -> None:
    """Write the checksum of every file of a folder to ``manifest.json``.

    Args:
        folder: Its hidden files do not count.
        left_out: Files and folders below it that do not count, because they are made again from
            the others.
    """
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    )
    skipped = set(left_out)
    kept = [
        name
        for name in names
        if not any(part.startswith(".") for part in name.split("/"))
        and name not in skipped
        and name.split("/")[0] not in skipped
    ]
    write_json(folder / MANIFEST, {"sha256": checksums(folder, kept)})


def damage(folder: Path) -> str:
    """The first file of a folder that is not as it was written, in words; empty if there is none."""
    if not (folder / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    try:
        expected = _read(folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{MANIFEST} is damaged"
    for name, mark in expected.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if checksum(folder / name) != mark:
            return f"{name} is damaged"
    return ""


def contents(folder: Path, below: Iterable[str]) -> str:
    """One checksum of some files of a folder, from its manifest.

    Args:
        folder: A folder with a manifest.
        below: Names of files, and of folders all of whose files count.
    """
    wanted = set(below)
    marks = [
        f"{name} {mark}\n"
        for name, mark in sorted(_read(folder).items())
        if name in wanted or name.split("/")[0] in wanted
    ]
    return hashlib.sha256("".join(marks).encode()).hexdigest()


def _read(folder: Path) -> dict[str, str]:
    text = (folder / MANIFEST).read_text(encoding="utf-8")
    return {str(name): str(mark) for name, mark in json.loads(text)["sha256"].items()}
