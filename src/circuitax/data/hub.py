"""A Hugging Face dataset from the local cache, as a corpus; never downloaded."""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from circuitax.data.corpus import Corpus, Document, TextError, build_corpus
from circuitax.data.fingerprint import fingerprint


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
