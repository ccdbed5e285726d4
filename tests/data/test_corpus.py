import platform
from pathlib import Path

import pytest

from circuitax.data.corpus import (
    PIECE_BYTES,
    Corpus,
    TextError,
    build_corpus,
    path_corpus,
    python_corpus,
    text_document,
)


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


def test_split_is_disjoint_ordered_and_repeatable(library: Corpus) -> None:
    train, held = ([d.name for d in part] for part in (library.train, library.validation))
    assert not set(train) & set(held)
    assert train == sorted(train) and held == sorted(held)
    assert len(held) == round(0.1 * (len(train) + len(held)))
    again = python_corpus()
    assert (again.digest, [d.name for d in again.validation]) == (library.digest, held)


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


def test_truncated_file_is_noticed(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text("some text")
    corpus = path_corpus(tmp_path)
    (tmp_path / "a").write_text("")
    with pytest.raises(ValueError, match="'a' became shorter"):
        text_of(corpus)


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


def test_a_folder_with_one_file_is_cut_like_the_file(tmp_path: Path) -> None:
    (tmp_path / "only.txt").write_text("".join(f"line {i}\n" for i in range(200)))
    (tmp_path / "x.bin").write_bytes(b"\0\1")
    corpus = path_corpus(tmp_path)
    assert text_of(corpus) == text_of(path_corpus(tmp_path / "only.txt"))
    assert len(corpus.train) > 40 and corpus.skipped == ("x.bin",)


def test_what_is_wrong_with_a_text_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(TextError):
        path_corpus(tmp_path)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1])
def test_validation_fraction_is_checked(fraction: float) -> None:
    with pytest.raises(ValueError, match="validation_fraction"):
        build_corpus("t", [], validation_fraction=fraction)


def test_interpreter_without_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(ValueError, match="no standard-library source"):
        python_corpus()


def test_source_encoding_cookie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_bytes(b"# -*- coding: latin-1 -*-\nname = 'caf\xe9'\n")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    assert text_of(python_corpus())["lib/old.py"].endswith("name = 'café'\n")
