"""Checksums of the files of a folder, which reveal damage before use."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from circuitax.data.files import checksum
from circuitax.records.store import write_json

MANIFEST = "manifest.json"


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The checksum of each named file of a folder, an empty text where there is no such file."""
    paths = {name: folder / name for name in names}
    return {name: checksum(path) if path.is_file() else "" for name, path in paths.items()}


def write_manifest(folder: Path, left_out: Iterable[str] = ()) -> None:
    """Write the checksum of every file of a folder to ``manifest.json``.

    Args:
        folder: Folder to write about; its hidden files do not count.
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
    marks = checksums(folder, kept)
    write_json(folder / MANIFEST, {"sha256": marks, "of_these": _of_all(marks)})


def damage(folder: Path) -> str:
    """Description of the first damaged file of a folder; empty if all checksums match."""
    if not (folder / MANIFEST).is_file():
        return f"{MANIFEST} is missing"
    try:
        expected = _read(folder)
    except ValueError:
        return f"{MANIFEST} is damaged"
    for name, mark in expected.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if checksum(folder / name) != mark:
            return f"{name} is damaged"
    return ""


def contents(folder: Path, below: Iterable[str]) -> str:
    """One combined checksum of some files of a folder, from its manifest.

    Args:
        folder: A folder with a manifest.
        below: Names of files, and of folders all of whose files count.
    """
    wanted = set(below)
    marks = _read(folder)
    return _of_all({n: marks[n] for n in marks if n in wanted or n.split("/")[0] in wanted})


def _of_all(marks: Mapping[str, str]) -> str:
    lines = [f"{name} {mark}\n" for name, mark in sorted(marks.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _read(folder: Path) -> dict[str, str]:
    kept = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    marks = kept.get("sha256") if isinstance(kept, dict) else None
    if not isinstance(marks, dict) or kept != {"sha256": marks, "of_these": _of_all(marks)}:
        raise ValueError(f"{MANIFEST} of {folder.name!r} is damaged")
    return marks
