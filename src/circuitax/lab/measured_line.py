"""Source line of a claim's measurement: the line that names its quantity."""

import ast
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

# A name with fewer fixed letters than this could be any: its parts are looked for instead.
_TELLING = 2


class Line(NamedTuple):
    """A line of a file, counted from 1."""

    path: Path
    number: int


class _Name(NamedTuple):
    """A name in the code: literal, or composed of literal and variable parts."""

    line: Line
    fixed: str
    pattern: re.Pattern[str] | None


def line_that_measures(quantity: str, files: Sequence[Path]) -> Line:
    """The line that assigns a quantity its value.

    It is the last one of the first file that has the name as a string. A name may be put together:
    ``f"T4-{source}-below"`` stands for ``T4-trained-below``, and the one with most fixed letters
    wins. Of ``f"{language}-{name}"`` the line of the same file that names the last part is taken:
    the first part says of which data, and a line that names it may only hand them on. Where no
    line names the quantity it is the function ``measure``, or the first line.

    Args:
        quantity: As a claim names it.
        files: Python files, the likeliest first, at least one.
    """
    names = [_names(path, path.read_text(encoding="utf-8")) for path in files]
    for of_file in names:
        found = [name.line for name in of_file if name.fixed == quantity and not name.pattern]
        if found:
            return found[-1]
    for of_file in names:
        matches = [
            (len(name.fixed), match.groups(), name)
            for name in of_file
            if name.pattern and (match := name.pattern.fullmatch(quantity))
        ]
        if matches:
            letters, parts, best = max(matches, key=lambda found: found[0])
            ends = [name for name in of_file if _ends(name, quantity, parts)]
            if letters >= _TELLING or not ends:
                return best.line
            return max(ends, key=lambda name: _fit(name, quantity)).line
    return _function(files[0], "measure")


def _ends(name: _Name, quantity: str, parts: Sequence[str]) -> bool:
    """Whether a literal is one of the parts that form a quantity's name, or its end."""
    return name.pattern is None and (
        name.fixed in parts or ("-" in name.fixed and quantity.endswith(f"-{name.fixed}"))
    )


def _fit(name: _Name, quantity: str) -> tuple[bool, int]:
    """Score of a literal as a quantity's name: ends before beginnings, long before short."""
    return quantity.endswith(f"-{name.fixed}"), len(name.fixed)


@lru_cache(maxsize=1024)  # every claim of an experiment asks
def _names(path: Path, text: str) -> tuple[_Name, ...]:
    """Every string of a file that may be a name, in order."""
    tree = ast.parse(text)
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    # What a null gives is no measurement.
    inside |= {
        id(part)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "nulls"
        for part in ast.walk(node)
    }
    # ``table["name"]`` reads what another line has measured.
    inside |= {
        id(node.slice)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in inside:
            texts = [str(p.value) if isinstance(p, ast.Constant) else None for p in node.values]
            pattern = "".join("(.*)" if text is None else re.escape(text) for text in texts)
            fixed = "".join(text for text in texts if text)
            found.append(_Name(Line(path, node.lineno), fixed, re.compile(pattern)))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            found.append(_Name(Line(path, node.lineno), node.value, None))
    kept = (name for name in found if name.fixed)
    return tuple(sorted(kept, key=lambda name: name.line.number))


def _function(path: Path, wanted: str) -> Line:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lines = [n.lineno for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == wanted]
    return Line(path, lines[0] if lines else 1)
