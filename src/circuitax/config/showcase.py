"""Texts of an experiment for the gallery, read from its files without importing them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from circuitax.config.catalogue import FIGURE, ExperimentEntry, constant

_LIBRARY = Path(__file__).parents[1]


class FigureText(NamedTuple):
    """Texts of one figure from ``figure.py``.

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
    """Texts of an experiment's figures, and its flagship figure.

    Attributes:
        flagship: ``FLAGSHIP`` of the folder's ``__init__.py``, a figure that opens the gallery;
            empty for most.
        figures: Texts by the name of the figure, the main figure first.
    """

    flagship: str
    figures: dict[str, FigureText]


def read_showcase(entry: ExperimentEntry) -> Showcase:
    """The texts of an experiment's figures, and its flagship.

    The figures and their order stand in the docstring of ``figure.py``: a line for each begins
    with its name, and its further lines are indented.
    """
    flagship = ""
    if (package := entry.file("__init__")).is_file():
        tree = ast.parse(package.read_text(encoding="utf-8"))
        flagship = constant(tree, "FLAGSHIP") or ""
    figures: dict[str, FigureText] = {}
    if entry.file(FIGURE).is_file():
        tree = ast.parse(entry.file(FIGURE).read_text(encoding="utf-8"))
        drawn = _drawn(tree, entry)
        for name, text in _described(ast.get_docstring(tree) or "").items():
            figures[name] = FigureText(*_sentences(text), drawn.get(name, ""))
    return Showcase(flagship, figures)


def _described(docstring: str) -> dict[str, str]:
    """Texts by name: each begins at a line without indent, below the first paragraph."""
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


def _drawn(tree: ast.Module, entry: ExperimentEntry) -> dict[str, str]:
    """First lines of the docstrings of the functions that draw, by the name of their figure."""
    first = {
        node.name: (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
        for node in _functions(tree, entry)
    }
    draw = next((n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "draw"), None)
    # What `draw` returns early, when there is nothing to show, stands deeper and comes later.
    called_by: dict[str, str] = {}
    for node in ast.walk(draw) if draw else ():
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                call = value.body if isinstance(value, ast.IfExp) else value
                called = call.func if isinstance(call, ast.Call) else None
                if isinstance(key, ast.Constant) and isinstance(called, ast.Name):
                    called_by.setdefault(str(key.value), first.get(called.id, ""))
    return first | called_by


def _functions(tree: ast.Module, entry: ExperimentEntry) -> Iterator[ast.FunctionDef]:
    """The functions of a module, and those it imports by name from this project's modules."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name != "draw":
            yield node
        elif isinstance(node, ast.ImportFrom) and (file := _file(node.module or "", entry)):
            names = {alias.name for alias in node.names}
            for other in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(other, ast.FunctionDef) and other.name in names:
                    yield other


def _file(module: str, entry: ExperimentEntry) -> Path | None:
    """The file of a module of the library, of the experiment itself or of its chapter."""
    top, *rest = entry.package.split(".")
    place = entry.folder.parents[len(rest) - 1] if rest else entry.folder
    for package, folder in ((_LIBRARY.name, _LIBRARY), (top, place)):
        if module.startswith(f"{package}."):
            file = folder.joinpath(*module.removeprefix(f"{package}.").split(".")).with_suffix(
                ".py"
            )
            return file if file.is_file() else None
    return None
