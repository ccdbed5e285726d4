"""Settled rows: what was measured, what the control gave, and the word; as plain values too."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from circuitax.records.estimate import Estimate, estimate_from_json, finite_or_none
from circuitax.records.rule import Control
from circuitax.records.table import ControlText, Quantity, Row


@dataclass(frozen=True)
class SettledQuantity:
    """A quantity with ours, the control's, one of the four words (none for a comparison), and why.

    ``estimate`` is None where it could not be taken, ``control`` where there is none.
    """

    quantity: Quantity
    estimate: Estimate | None
    control: Control | None
    word: str
    why: str


@dataclass(frozen=True)
class SettledRow:
    """A row with its word, why it is not tested if it is not, and its quantities.

    A row of comparisons alone has no word.
    """

    row: Row
    word: str
    why: str
    quantities: tuple[SettledQuantity, ...]


def row_to_json(settled: SettledRow) -> dict[str, Any]:
    """Plain values for ``claims.json``."""
    quantities = [
        {
            **asdict(each.quantity),
            "measured": None if each.estimate is None else finite_or_none(each.estimate._asdict()),
            "control_gives": None
            if each.control is None
            else finite_or_none(each.control._asdict()),
            "word": each.word,
            "why": each.why,
        }
        for each in settled.quantities
    ]
    fields = {**asdict(settled.row), "quantities": quantities}
    return {**fields, "word": settled.word, "why": settled.why}


def row_from_json(item: Mapping[str, Any]) -> SettledRow:
    """A settled row from ``claims.json``."""
    fields = dict(item)
    word, why = fields.pop("word"), fields.pop("why")
    quantities = tuple(_quantity(each) for each in fields.pop("quantities"))
    row = Row(**fields, quantities=tuple(each.quantity for each in quantities))
    return SettledRow(row, word, why, quantities)


def count_words(rows: Iterable[SettledRow]) -> dict[str, int]:
    """How many published rows have each word."""
    found: dict[str, int] = {}
    for settled in rows:
        if settled.row.published and settled.word:
            found[settled.word] = found.get(settled.word, 0) + 1
    return found


def _quantity(item: Mapping[str, Any]) -> SettledQuantity:
    fields = dict(item)
    measured, gives = fields.pop("measured"), fields.pop("control_gives")
    word, why = fields.pop("word"), fields.pop("why")
    if fields["control"] is not None:
        fields["control"] = ControlText(**fields["control"])
    if gives is not None:
        low, high = (gives[end] for end in ("low", "high"))
        low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
        gives = Control(low, gives["median"], high, gives["n"])
    estimate = None if measured is None else estimate_from_json(measured)
    return SettledQuantity(Quantity(**fields), estimate, gives, word, why)
