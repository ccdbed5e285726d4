"""Agreement of what was computed here with the accepted run, quantity by quantity."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from circuitax.records.estimate import Estimate
from circuitax.records.rows import SettledRow

# How far a number without an interval may move, of its size.
ROUNDING = 1e-3


class Here(NamedTuple):
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


def hold_against(here: Sequence[SettledRow], there: Sequence[SettledRow]) -> dict[str, Here]:
    """Every row of an accepted run as a run made here settled it, by its id."""
    made = {settled.row.id: settled for settled in here}
    found = {}
    for kept in there:
        mine = made.get(kept.row.id)
        if mine is None:
            found[kept.row.id] = Here("", "the run here does not make it", 0, 0)
            continue
        pairs = [
            (a.estimate, b.estimate)
            for a, b in zip(mine.quantities, kept.quantities, strict=False)
            if a.estimate is not None and b.estimate is not None
        ]
        agree = sum(abs(a.value - b.value) <= tolerance(a, b) for a, b in pairs)
        found[kept.row.id] = Here(mine.word, mine.why, agree, len(pairs))
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


def in_words(found: Mapping[str, Here], published: Sequence[str]) -> str:
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
