"""The rule by which a published result is judged, and the four words it has.

A quantity compares ours, with a 95 % interval, with what is printed and with what a plain control
gives. Nothing else enters: a limit is printed, or it is the one that this page states.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from circuitax.records.estimate import Estimate

REPRODUCED, PARTLY = "reproduced", "partly"
NOT_REPRODUCED, NOT_TESTED = "not reproduced", "not tested here"
WORDS = (REPRODUCED, PARTLY, NOT_REPRODUCED, NOT_TESTED)
# What a source prints: a number, that one thing is more than another, or one network as a picture.
NUMBER, RELATION, NETWORK = "number", "relation", "network"
# What is shown beside the source's number and not judged: ours is of another size.
COMPARISON = "comparison"
RULES = (NUMBER, RELATION, NETWORK, COMPARISON)

# Of the printed number: how far ours may be from it, and how wide half of our interval may be.
NEAR, WIDE = 0.10, 0.25
# Where a paper shows one network, this share of ours looks so at least.
SHARE = 0.20
# Draws of a control from which its 5 and 95 % quantiles are taken; of fewer, the range.
FEWEST_DRAWS = 20


class Control(NamedTuple):
    """What a plain control gives.

    Attributes:
        low: The 5 % quantile of its draws; of fewer than `FEWEST_DRAWS` the least; of one, the
            lower end of its own interval; of a number, that number.
        median: The median of the draws.
        high: Likewise the upper end.
        n: Draws.
    """

    low: float
    median: float
    high: float
    n: int


class Judgement(NamedTuple):
    """A word of `WORDS`, or none for a comparison, and one clause that says why."""

    word: str
    why: str


def judge_number(
    x: Estimate, printed: float, spread: float | int, control: Control | None
) -> Judgement:
    """A printed number: ours is near it, known well enough, and off the control.

    Near is the largest of ``spread``, 10 % of the number and half of our interval.

    Args:
        x: Ours.
        printed: The number, not 0 unless it has a spread.
        spread: Its printed precision, or the spread that is printed with it; 0 for none.
        control: What a control gives; None where a number needs none (theorems, corrections).
    """
    half = (x.high - x.low) / 2
    if not half <= max(WIDE * abs(printed), spread):
        return Judgement(NOT_TESTED, f"our interval is too wide to tell ({_range(x.low, x.high)})")
    met = abs(x.value - printed) <= max(spread, NEAR * abs(printed), half)
    if control is None:
        return Judgement(REPRODUCED, "") if met else Judgement(NOT_REPRODUCED, "")
    off = not control.low <= x.value <= control.high
    if met and off:
        return Judgement(REPRODUCED, "")
    if met:
        return Judgement(NOT_TESTED, "the control gives the same")
    if x.low <= printed <= x.high and x.low <= control.median <= x.high:
        return Judgement(NOT_TESTED, "our interval covers both the number and the control")
    rises = printed > control.median
    if off and (x.low > control.median if rises else x.high < control.median):
        return Judgement(PARTLY, "on the printed side of the control, but another number")
    return Judgement(NOT_REPRODUCED, "")


def judge_relation(
    x: Estimate, above: bool, than: float | int | None, control: Control | None
) -> Judgement:
    """A printed relation: our interval lies on the stated side of the control and of the limit.

    Args:
        x: Ours.
        above: Whether the source says that it is more, rather than less.
        than: The limit that the source prints, or 0 where it compares two arms; None for none.
        control: What a control gives; its median is the limit.

    Raises:
        ValueError: If there is neither a limit nor a control.
    """
    if than is None:
        if control is None:
            raise ValueError("than=None needs a control: a relation is to something")
        than = control.median
    if not _beyond(x, than, above):
        if _beyond(x, than, not above) or x.low == x.high == than:
            return Judgement(NOT_REPRODUCED, "")
        return Judgement(NOT_TESTED, f"our interval ({_range(x.low, x.high)}) covers {than:.3g}")
    if control is not None and not _beyond(x, control.median, above):
        return Judgement(NOT_TESTED, "the control gives the same")
    return Judgement(REPRODUCED, "")


def judge_network(x: Estimate, control: Control) -> Judgement:
    """One network is shown: at least one in five of ours looks so, and more than of the control.

    The intervals of ours and of the control are apart.
    """
    if x.low > control.high and x.value >= SHARE:
        return Judgement(REPRODUCED, "")
    if x.low > control.high:
        return Judgement(PARTLY, "more often than in the control, but in fewer than one in five")
    if x.high < SHARE:
        return Judgement(NOT_REPRODUCED, "")
    return Judgement(NOT_TESTED, "the control looks so as often")


def judge_row(words: Sequence[str]) -> str:
    """The word of a row by those of its quantities, without comparisons.

    All reproduced: reproduced. Some of them, or some in part: partly. None, and at least one that
    could have been: not reproduced. Else: not tested here.
    """
    if words and all(word == REPRODUCED for word in words):
        return REPRODUCED
    if any(word in (REPRODUCED, PARTLY) for word in words):
        return PARTLY
    return NOT_REPRODUCED if NOT_REPRODUCED in words else NOT_TESTED


def _beyond(x: Estimate, limit: float | int, above: bool) -> bool:
    return bool(x.low > limit if above else x.high < limit)


def _range(low: float, high: float) -> str:
    ends = (f"{end:.3g}" if math.isfinite(end) else "unbounded" for end in (low, high))
    return " to ".join(ends)
