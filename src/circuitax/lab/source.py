"""Source hash of a result: syntax trees of a file and all its imports."""

import ast
import hashlib
import importlib.util
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("circuitax", "experiments")
# The libraries whose version may move a number.
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "numpy")
# What an experiment imports, or its lab does, that moves no number.
NO_NUMBERS = (
    "circuitax.config",
    "circuitax.display",
    "circuitax.figures",
    "circuitax.lab.busy",
    "circuitax.lab.progress",
    "circuitax.lab.runs",
    "circuitax.records.claims",
    "circuitax.records.measured",
)


def numbers_hash(experiments: Iterable[Path]) -> str:
    """Hash of everything that determines the numbers of a run beside its specification.

    That is the syntax trees of the experiments' modules and of all modules that these import, the
    module that conducts the run, and the versions of `LIBRARIES`. Comments, docstrings, layout,
    claims, measures, figures and progress bars are not part of it.

    Args:
        experiments: ``experiment.py`` of the run and of every run upstream.
    """
    conduct = Path(__file__).with_name("conduct.py")
    versions = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    return source_hash(experiments, alone=[conduct], left_out=NO_NUMBERS, also=versions)


def source_hash(
    starts: Iterable[Path],
    *,
    alone: Iterable[Path] = (),
    left_out: Collection[str] = (),
    also: Iterable[str] = (),
) -> str:
    """Twelve hexadecimal digits that identify the source of files and of all their imports.

    Args:
        starts: First files; each may import the packages of `PACKAGES` and its own folder by the
            folder's name.
        alone: Files that count without what they import: Python, or any text.
        left_out: Import names of modules and packages that do not count.
        also: Further texts that count.
    """
    found: dict[Path, str] = {}
    for start in starts:
        for path in source_files(start, _roots(start), left_out):
            found[path] = _parsed(path.read_text(encoding="utf-8")).digest
    for path in alone:
        text = path.read_text(encoding="utf-8")
        python = path.suffix == ".py"
        found[path] = _parsed(text).digest if python else hashlib.sha256(text.encode()).hexdigest()
    digest = hashlib.sha256()
    # By the file's name and content, so that a checkout elsewhere gives the same hash.
    for line in [*sorted(f"{path.name} {mark}" for path, mark in found.items()), *also]:
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()[:12]


def source_files(
    start: Path, roots: Mapping[str, Path], left_out: Collection[str] = ()
) -> list[Path]:
    """A file and every file of ``roots`` among its imports, direct or indirect.

    Imports inside functions count. In the root of a package, whose names may be imported when they
    are first used, texts that name a module of it count too.

    Args:
        start: First file.
        roots: Folder of each package whose files count, by import name.
        left_out: Import names of modules and packages that do not count.
    """
    seen: set[Path] = set()
    asked: set[tuple[str, Path | None]] = set()
    waiting = [start.resolve()]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        named = _named(text) if path.name == "__init__.py" else ()
        for name in (*_parsed(text).imports, *named):
            # A relative name says something else in another folder.
            key = (name, path.parent if name.startswith(".") else None)
            if key in asked:
                continue
            asked.add(key)
            if not any(name == item or name.startswith(f"{item}.") for item in left_out):
                waiting.extend(_files(name, path, roots))
    return sorted(seen)


class _Parsed(NamedTuple):
    """The hashed part of one file: its digest, and the names it imports."""

    digest: str
    imports: tuple[str, ...]


@lru_cache(maxsize=1024)
def _parsed(text: str) -> _Parsed:
    tree = ast.parse(text)
    imports = tuple(dict.fromkeys(_imported(tree)))
    _strip(tree)
    return _Parsed(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports)


@lru_cache(maxsize=64)
def _named(text: str) -> tuple[str, ...]:
    """Strings in a source that may be names of modules."""
    nodes = ast.walk(ast.parse(text))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    return tuple(dict.fromkeys(n for t in texts if isinstance(t, str) for n in _as_names(t)))


def _blocks(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements and their containers; expressions, the bulk of the tree, contain none."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, field, ()))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in _blocks(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            dot = "" if module.endswith(".") else "."
            yield from (f"{module}{dot}{alias.name}" for alias in node.names)


def _as_names(text: str) -> Iterator[str]:
    """A string as the name of a module: absolute, and relative to the package of its file."""
    if re.fullmatch(r"[\w.]*\w", text):
        yield from (text, f".{text.lstrip('.')}")


def _strip(tree: ast.Module) -> None:
    """Remove docstrings."""
    for node in _blocks(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]


def _roots(start: Path) -> dict[str, Path]:
    roots = {start.resolve().parent.name: start.resolve().parent}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            roots[package] = Path(next(iter(spec.submodule_search_locations))).resolve()
    return roots


def _files(name: str, importer: Path, roots: Mapping[str, Path]) -> tuple[Path, ...]:
    if name.startswith("."):  # relative to the folder of the importer, one dot for each level
        level = len(name) - len(name.lstrip("."))
        return _below(importer.parents[level - 1], name[level:])
    top, _, rest = name.partition(".")
    return _below(roots[top], rest) if top in roots else ()


# A file that is added while a process runs is not seen by it, as by Python's own imports.
@lru_cache(maxsize=16384)
def _below(folder: Path, name: str) -> tuple[Path, ...]:
    """The files that a dotted name below a folder may mean."""
    parts = [part for part in name.split(".") if part]
    candidates = [folder.joinpath(*parts, "__init__.py")]
    if parts:
        candidates.append(folder.joinpath(*parts).with_suffix(".py"))
    return tuple(path.resolve() for path in candidates if path.is_file())
