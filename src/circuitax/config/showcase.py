"""How an experiment is shown to a visitor, read from its files without importing them."""

import ast
import re
from typing import NamedTuple

from circuitax.config.catalogue import FIGURE, Entry, constant

LAST = 1000  # place of an experiment that names none


class FigureText(NamedTuple):
    """What ``figure.py`` says about one figure.

    Attributes:
        message: First sentence: what the figure shows.
        caption: The sentences between the message and the refutation; may be empty.
        refuted: The sentence that says what would refute the message; may be empty.
        drawn: What is drawn, from the docstring of the function that draws it; may be empty.
    """

    message: str
    caption: str
    refuted: str
    drawn: str


class Showcase(NamedTuple):
    """Where an experiment is shown, and what is said about its figures.

    Attributes:
        chapter: ``CHAPTER`` of the folder's ``__init__.py``; empty when not stated.
        place: ``PLACE``, by which the experiments of a chapter are ordered.
        flagship: ``FLAGSHIP``, a figure that opens the gallery; empty for most.
        figures: Texts by the name of the figure, the main figure first.
    """

    chapter: str
    place: int
    flagship: str
    figures: dict[str, FigureText]


def read_showcase(entry: Entry) -> Showcase:
    """What an experiment declares about the way it is shown.

    The constants ``CHAPTER``, ``PLACE`` and ``FLAGSHIP`` stand in ``__init__.py``. The figures and
    their order stand in the docstring of ``figure.py``: a line for each begins with its name, and
    its further lines are indented.
    """
    chapter, place, flagship = "", LAST, ""
    if (package := entry.file("__init__")).is_file():
        tree = ast.parse(package.read_text(encoding="utf-8"))
        chapter = constant(tree, "CHAPTER") or ""
        place = constant(tree, "PLACE") or LAST
        flagship = constant(tree, "FLAGSHIP") or ""
    figures: dict[str, FigureText] = {}
    if entry.file(FIGURE).is_file():
        tree = ast.parse(entry.file(FIGURE).read_text(encoding="utf-8"))
        drawn = _drawn(tree)
        for name, text in _described(ast.get_docstring(tree) or "").items():
            figures[name] = FigureText(*_sentences(text), drawn.get(name, ""))
    return Showcase(chapter, place, flagship, figures)


def _described(docstring: str) -> dict[str, str]:
    """Texts by name: lines that are not indented begin one, below the first paragraph."""
    found: dict[str, str] = {}
    name = ""
    for line in docstring.split("\n")[1:]:
        begin = re.match(r"(\w+)\s+(\S.*)", line)
        if begin:
            name = begin[1]
            found[name] = begin[2]
        elif line.strip() and name:
            found[name] += " " + line.strip()
        else:
            name = ""
    return found


def _sentences(text: str) -> tuple[str, str, str]:
    """Message, caption and refutation."""
    parts = re.split(r"(?<=[.?!]) (?=[A-Z(])", text)
    # The refutation is the last word on a figure, however many sentences it has.
    at = next((i for i, part in enumerate(parts) if "efuted" in part.split(" if ")[0]), len(parts))
    told, refuted = parts[:at], parts[at:]
    return (told[0] if told else ""), " ".join(told[1:]), " ".join(refuted)


def _drawn(tree: ast.Module) -> dict[str, str]:
    """First lines of the docstrings of the functions that draw, by the name of their figure."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    first = {
        name: (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
        for name, node in functions.items()
        if name != "draw"
    }
    found = dict(first)
    for node in ast.walk(functions["draw"]) if "draw" in functions else ():
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                called = value.func if isinstance(value, ast.Call) else None
                if isinstance(key, ast.Constant) and isinstance(called, ast.Name):
                    found[str(key.value)] = first.get(called.id, "")
    return found
