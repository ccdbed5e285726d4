"""The source that a run depends on: its module and all it imports from here, as one hash."""

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path


def source_files(start: Path, roots: dict[str, Path]) -> list[Path]:
    """A file and every file of ``roots`` that it imports, directly or through others.

    Imports inside functions count; imports written as strings do not.

    Args:
        start: First file.
        roots: Folder of each package whose files count, by import name.
    """
    seen: set[Path] = set()
    waiting = [start.resolve()]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for name in _imported(path):
            waiting.extend(_files(name, roots))
    return sorted(seen)


def source_hash(starts: Iterable[Path], extra: Iterable[Path], packages: tuple[str, ...]) -> str:
    """Twelve hexadecimal digits of the contents of all files that the starts depend on.

    Args:
        starts: The experiment's file and those of the experiments it requires.
        extra: Further files, such as ``constraints.txt``; absent ones are left out.
        packages: Import names of the packages whose files count.
    """
    roots = {}
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            roots[package] = Path(next(iter(spec.submodule_search_locations))).resolve()
    files: set[Path] = set()
    for start in starts:
        # The files of an experiment outside the packages are imported by the folder's name.
        local = {start.resolve().parent.name: start.resolve().parent}
        files.update(source_files(start, {**local, **roots}))
    files.update(path for path in extra if path.is_file())
    digest = hashlib.sha256()
    # By name and content, so that a checkout elsewhere gives the same hash.
    for path in sorted(files, key=lambda path: (path.name, path.read_bytes())):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files(name: str, roots: dict[str, Path]) -> Iterator[Path]:
    top, *rest = name.split(".")
    root = roots.get(top)
    if root is None:
        return
    if root.suffix == ".py":
        yield root
        return
    for candidate in (
        root.joinpath(*rest).with_suffix(".py") if rest else root / "__init__.py",
        root.joinpath(*rest, "__init__.py"),
    ):
        if candidate.is_file():
            yield candidate.resolve()
