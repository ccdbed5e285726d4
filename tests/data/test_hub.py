"""`datasets` is no dependency: a stand-in plays its part; the real one was tried by hand."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from circuitax.data import corpus as hub
from circuitax.data.corpus import dataset_corpus


class Rows(list[dict[str, str]]):
    column_names = ("text", "id", "n")


ROWS = Rows({"text": f"story {i}", "id": str(i), "n": i} for i in range(12))  # type: ignore[misc]


def load_from_disk(path: str) -> Any:
    if Path(path).name == "text":
        raise FileNotFoundError("neither a dataset nor a dictionary of them")
    return {"test": ROWS} if Path(path).name == "test" else {"train": ROWS}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cache:
        def __init__(self, **arguments: Any) -> None:
            if (arguments["repo_id"], arguments["dataset_name"]) != ("someone/stories", "stories"):
                raise ValueError("Couldn't find cache for it\nand more lines")

        def as_dataset(self, split: str) -> Rows:
            assert split == "train"
            return ROWS

    datasets = ModuleType("datasets")
    datasets.load_from_disk = load_from_disk  # type: ignore[attr-defined]
    cache = ModuleType("datasets.packaged_modules.cache.cache")
    cache.Cache = Cache  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    monkeypatch.setitem(sys.modules, "datasets.packaged_modules.cache.cache", cache)
    monkeypatch.setattr(hub, "import_module", lambda name: sys.modules[name])
    monkeypatch.setattr(hub, "find_spec", lambda name: True)


@pytest.mark.usefixtures("library")
def test_rows_are_documents() -> None:
    corpus = dataset_corpus("someone/stories")
    texts = {d.name: "".join(d.pieces()) for d in (*corpus.train, *corpus.validation)}
    assert texts["03"] == "story 3" and len(texts) == 12
    assert corpus.title == "stories" and len(corpus.validation) == 1


@pytest.mark.usefixtures("library")
def test_folder_saved_to_disk(tmp_path: Path) -> None:
    assert len(dataset_corpus(str(tmp_path)).train) == 11


@pytest.mark.usefixtures("library")
def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"column='body' must be one of \['id', 'n', 'text'\]"):
        dataset_corpus("someone/stories", column="body")
    with pytest.raises(ValueError, match=r"'no/such' must be in the local cache: Couldn't find"):
        dataset_corpus("no/such")
    with pytest.raises(ValueError, match="column='n' must hold text: its first row is of type int"):
        dataset_corpus("someone/stories", column="n")
    for folder, message in (
        ("text", "must be a folder written by Dataset.save_to_disk"),
        ("test", r"must have a split 'train': it has \['test'\]"),
    ):
        (tmp_path / folder).mkdir()
        with pytest.raises(ValueError, match=message):
            dataset_corpus(str(tmp_path / folder))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="needs the package 'datasets'"):
        dataset_corpus("someone/stories")
