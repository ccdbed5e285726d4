"""Printed form of results: a few numbers by name, or shapes of traced arrays, in twenty lines.

A value inside ``jit``, or with axes that a table does not expect, is shown by its shapes.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import jax
import numpy as np

from circuitax.display.tables import ROWS, shortened

Class = TypeVar("Class", bound=type)


def tabled(cls: Class) -> Class:
    """The class itself, which shows its ``_table()`` as text and in a notebook."""

    def as_text(self: Any) -> str:
        table = self._table()
        return shapes(self) if table is None else str(table.text())

    def as_html(self: Any) -> str | None:
        table = self._table()
        return None if table is None else str(table.html())

    for name, method in (("__repr__", as_text), ("_repr_html_", as_html)):
        setattr(cls, name, method)
    return cls


def known(*arrays: Any) -> bool:
    """Whether all of these hold concrete numbers: none is traced or a placeholder."""
    return all(
        hasattr(leaf, "shape")
        and hasattr(leaf, "__array__")
        and not isinstance(leaf, jax.core.Tracer)
        for leaf in jax.tree.leaves(arrays)
    )


def shapes(value: Any) -> str:
    """The arrays of a named tuple by name, with type and shape; None is left out."""
    lines = list(_fields(value, ""))
    width = max((len(name) for name, _ in lines), default=0)
    rows = [f"  {name:<{width}}  {text}" for name, text in lines]
    return "\n".join([f"{type(value).__name__}", *shortened(rows, 19)])


def largest(values: np.ndarray) -> list[tuple[int, ...]]:
    """Indices of the largest finite entries in absolute value, one for each row of a table."""
    size = np.where(np.isfinite(values), np.abs(values), -1).ravel()
    order = np.argsort(-size, kind="stable")[:ROWS]
    return [
        tuple(int(i) for i in np.unravel_index(at, values.shape)) for at in order if size[at] >= 0
    ]


def _fields(value: Any, before: str) -> Iterable[tuple[str, str]]:
    for name, part in value._asdict().items():
        if isinstance(part, tuple) and hasattr(part, "_fields"):
            yield from _fields(part, f"{before}{name}.")
        elif part is not None:
            yield before + name, _array(part)


def _array(part: Any) -> str:
    if hasattr(part, "shape") and hasattr(part, "dtype"):
        return f"{part.dtype}{list(part.shape)}"
    return repr(part)
