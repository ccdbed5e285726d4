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
    """Descriptions of a class's fields, from the ``Attributes:`` of it and of its bases."""
    found = {}
    for base in reversed(cls.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")
        section = attributes.partition("\n\n")[0]
        found |= {name: re.sub(r"\s+", " ", text) for name, text in _ENTRY.findall(section)}
    return found
