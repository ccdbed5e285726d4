"""Fields of a named tuple that ``help`` describes, by the ``Attributes:`` of its docstring."""

import inspect
import re
from typing import TypeVar

Tuple = TypeVar("Tuple", bound=type)
_ENTRY = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def documented(cls: Tuple) -> Tuple:
    """The class itself, whose fields have their docs from ``Attributes:``.

    Without this, ``help`` says "Alias for field number 0" of the first.
    """
    for name, text in described(cls).items():
        getattr(cls, name).__doc__ = text
    return cls


def described(cls: type) -> dict[str, str]:
    """Descriptions of a class's fields, from the ``Attributes:`` of its docstring."""
    _, _, attributes = (inspect.getdoc(cls) or "").partition("\nAttributes:\n")
    section = attributes.partition("\n\n")[0]
    return {name: re.sub(r"\s+", " ", text) for name, text in _ENTRY.findall(section)}
