"""Settled rows: what was measured, the control, the word, and the agreement of two runs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

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


# How far a number without an interval may move, of its size.
ROUNDING = 1e-3


class Agreement(NamedTuple):
    """A row as this machine settled it, beside the accepted run.

    Attributes:
        word: One of the four words; empty where nothing was computed here.
        why: Why it is not tested here.
        agree: Quantities that agree, as `tolerance` has it.
        compared: Quantities that both runs measured.
    """

    word: str
    why: str
    agree: int
    compared: int


def compare_accepted(
    here: Sequence[SettledRow], there: Sequence[SettledRow]
) -> dict[str, Agreement]:
    """Every row of an accepted run as a run made here settled it, by its id."""
    made = {settled.row.id: settled for settled in here}
    found = {}
    for kept in there:
        mine = made.get(kept.row.id)
        if mine is None:
            found[kept.row.id] = Agreement("", "the run here does not make it", 0, 0)
            continue
        pairs = [
            (a.estimate, b.estimate)
            for a, b in zip(mine.quantities, kept.quantities, strict=False)
            if a.estimate is not None and b.estimate is not None
        ]
        agree = sum(abs(a.value - b.value) <= tolerance(a, b) for a, b in pairs)
        found[kept.row.id] = Agreement(mine.word, mine.why, agree, len(pairs))
    return found


def tolerance(here: Estimate, there: Estimate) -> float:
    """Tolerance for the difference of two noisy estimates of one quantity.

    ``sqrt(h₁² + h₂²)`` of the halves of the intervals, whose widths account for both n;
    ``ROUNDING`` times the size for numbers without an interval. A single replicate has no finite
    interval: it is held against the prediction interval of the other estimate, of half
    ``h sqrt(n + 1)``. It is infinite where neither has a finite interval.
    """
    rounding = ROUNDING * max(abs(here.value), abs(there.value))
    for one, other in ((here, there), (there, here)):
        if one.n == 1 and math.isinf(_half(one)) and math.isfinite(_half(other)):
            return max(_half(other) * math.sqrt(other.n + 1), rounding)
    return max(math.hypot(_half(here), _half(there)), rounding)


def agreement_text(found: Mapping[str, Agreement], published: Sequence[str]) -> str:
    """``"61 of 84 published results computed here; 210 of 224 quantities agree"``."""
    computed = sum(found[name].compared > 0 for name in published if name in found)
    agree = sum(here.agree for here in found.values())
    compared = sum(here.compared for here in found.values())
    return (
        f"{computed} of {len(published)} published results were computed here; "
        f"{agree} of {compared} measured quantities agree with the accepted ones"
    )


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2
