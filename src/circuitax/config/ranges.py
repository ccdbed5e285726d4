"""Ranges of a Spec's fields, stated once, as their types.

``seeds: Annotated[int, "[1, inf)"]`` must be at least 1; ``chunk: Annotated[int, "[1, inf)",
"divides optim.steps"]`` must also divide another field. The aliases below are the usual ones. A
field that holds a sequence is checked entry by entry; ``increasing`` and ``distinct`` speak of the
sequence, ``subset of`` of its entries and those of another field.
"""

import dataclasses
import itertools
import math
import typing
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Annotated, Any

Positive = Annotated[int, "[1, inf)"]
NotNegative = Annotated[int, "[0, inf)"]
PositiveNumber = Annotated[float, "(0, inf)"]
NumberFrom0 = Annotated[float, "[0, inf)"]
Share = Annotated[float, "[0, 1]"]
Increasing = Annotated[tuple[int, ...], "increasing"]
Distinct = Annotated[tuple[int, ...], "distinct"]


def check(spec: Any) -> None:
    """Refuse a Spec whose fields are out of their ranges; specs inside it have been checked before.

    Raises:
        ValueError: One line that names the field, its value and what it must be.
    """
    hints = typing.get_type_hints(type(spec), include_extras=True)
    for field in dataclasses.fields(spec):
        value = getattr(spec, field.name)
        for range_ in () if value is None else ranges_of(hints[field.name]):
            for entry, where in _entries(value, field.name, range_):
                if not _fits(spec, entry, range_):
                    raise ValueError(f"{where}={entry!r} must be {in_words(spec, range_)}")


def ranges_of(hint: Any) -> list[str]:
    """The ranges of an annotated type, and of the entries or alternatives inside it."""
    own = [item for item in getattr(hint, "__metadata__", ()) if isinstance(item, str)]
    inner = typing.get_args(hint)[:1] if own else typing.get_args(hint)
    return own + [item for kind in inner for item in ranges_of(kind)]


def in_words(spec: Any, range_: str) -> str:
    """A range as a message says it, with the values of the fields that it names."""
    for word in ("divides", "subset of"):
        if range_.startswith(word):
            name = range_.removeprefix(word).strip()
            text = "a divisor of" if word == "divides" else "among those of"
            return f"{text} {name}={_field(spec, name)!r}"
    if range_ in ("increasing", "distinct"):
        return range_
    (low, low_text), (high, high_text) = (_end(spec, end) for end in range_[1:-1].split(","))
    first = f"{'at least' if range_[0] == '[' else 'above'} {low_text}"
    last = f"{'at most' if range_[-1] == ']' else 'below'} {high_text}"
    bounds = [first] * math.isfinite(low) + [last] * math.isfinite(high)
    return " and ".join(bounds)


def _entries(value: Any, path: str, range_: str) -> Iterator[tuple[Any, str]]:
    whole = range_ in ("increasing", "distinct") or range_.startswith("subset of")
    if isinstance(value, (tuple, list)) and not whole:
        for number, entry in enumerate(value):
            yield from _entries(entry, f"{path}[{number}]", range_)
    else:
        yield value, path


def _fits(spec: Any, value: Any, range_: str) -> bool:
    if range_ == "increasing":
        return len(value) > 0 and all(a < b for a, b in itertools.pairwise(value))
    if range_ == "distinct":
        return len(value) > 0 and len(set(value)) == len(value)
    if range_.startswith("subset of"):
        return set(value) <= set(_field(spec, range_.removeprefix("subset of").strip()))
    if range_.startswith("divides"):
        multiple = _field(spec, range_.removeprefix("divides").strip())
        multiples = multiple if isinstance(multiple, (tuple, list)) else (multiple,)
        return bool(value >= 1 and all(each % value == 0 for each in multiples))
    (low, _), (high, _) = (_end(spec, end) for end in range_[1:-1].split(","))
    above = value >= low if range_[0] == "[" else value > low
    return bool(above and (value <= high if range_[-1] == "]" else value < high))


def _end(spec: Any, text: str) -> tuple[float, str]:
    text = text.strip()
    try:
        return float(text), text
    except ValueError:
        value = _field(spec, text)
        least = min(value) if isinstance(value, Sequence) else value
        return float(least), f"{text}={value!r}"


def _field(spec: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), spec)
