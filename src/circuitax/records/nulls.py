"""Nulls of claims: their construction, and the rate at which a claim would hold in one."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from circuitax.records.estimate import Estimate

# Nulls that are drawn, as `Null` explains.
DRAWN = ("untrained", "mismatched", "permuted", "random", "false world")
BY_PROOF, PRINTED_NUMBER, OFF_RECORD = "theorem", "printed number", "not on record"
NULLS = (*DRAWN, BY_PROOF, PRINTED_NUMBER, OFF_RECORD)
# A claim that holds in more of its null's draws than this would hold anyway.
LARGEST_SHARE = 0.05

# Draws of one quantity: estimates, judged by their whole interval; plain numbers (a list, or an
# array of one dimension), where an interval makes no sense; None for a draw that lacks what the
# claim speaks of, in which it does not hold.
Draws = Sequence[Estimate | float | None] | np.ndarray
# What an experiment's ``nulls(record)`` returns: draws by kind of null, then by quantity.
Nulls = Mapping[str, Mapping[str, Draws]]


@dataclass(frozen=True)
class Null:
    """The null beside a claim, or the reason for its absence, declared with the claim.

    Attributes:
        kind: ``"untrained"``: the same measure on the weights at the start. ``"mismatched"``: what
            belongs to one seed, text or model against that of another. ``"permuted"``: labels,
            heads or tokens shuffled. ``"random"``: matrices of the same shapes and norms, or
            chance. ``"false world"``: data in which the statement is false by construction. These
            are drawn from the record. Or ``"theorem"``: true by proof. ``"printed number"``: a
            value with a tolerance, which a random answer misses. ``"not on record"``: the claim
            needs a null that the record cannot give.
        how: How the null is made, or why there is none, one sentence.
        answer: What a random answer would give; of a printed number alone.

    Raises:
        ValueError: If ``kind`` is unknown, ``how`` is empty, or ``answer`` is missing for a printed
            number or given for another kind.
    """

    kind: str
    how: str
    answer: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in NULLS:
            raise ValueError(f"kind={self.kind!r} of a null must be one of {NULLS}")
        if not self.how.strip():
            raise ValueError(f"how={self.how!r} of a null must say how it is made, or why not")
        if (self.answer is not None) != (self.kind == PRINTED_NUMBER):
            raise ValueError(
                f"answer={self.answer} of a null must be given for a {PRINTED_NUMBER!r} and for no "
                f"other kind, this is {self.kind!r}"
            )
        if self.answer is not None and not math.isfinite(self.answer):
            raise ValueError(f"answer={self.answer} of a null must be finite")


class NullOutcome(NamedTuple):
    """Outcome of a claim in the draws of its null.

    Attributes:
        n: Draws.
        holding: Draws in which the claim would hold.
        low: The 5 % quantile of the drawn values; None if no draw has a value.
        median: Their median, likewise.
        high: The 95 % quantile, likewise.
    """

    n: int
    holding: int
    low: float | None
    median: float | None
    high: float | None

    @property
    def holds(self) -> bool:
        """Whether the claim would hold in more draws than `LARGEST_SHARE` of them."""
        return self.holding > LARGEST_SHARE * self.n


def null_outcome(draws: Draws, holds: Callable[[Estimate], bool]) -> NullOutcome:
    """The outcome of a claim in the draws of its null.

    Args:
        draws: At least one. A plain number has no interval: it is judged by itself.
        holds: Whether the claim holds by an estimate.

    Raises:
        ValueError: If there is no draw, an array has several dimensions, or a value is not a
            number; a draw that has none is None.
    """
    if isinstance(draws, np.ndarray) and draws.ndim != 1:
        raise ValueError(f"draws has shape {draws.shape}, must have one dimension")
    found = [None if draw is None else _estimate(draw) for draw in draws]
    if not found:
        raise ValueError("draws is empty, a null needs at least one")
    values = [draw.value for draw in found if draw is not None]
    if np.isnan(values).any():
        bad = int(np.isnan(values).sum())
        raise ValueError(f"draws holds {bad} values that are not numbers; a draw without is None")
    holding = sum(draw is not None and holds(draw) for draw in found)
    low = median = high = None
    if values:
        low, median, high = (float(np.quantile(values, share)) for share in (0.05, 0.5, 0.95))
    return NullOutcome(len(found), holding, low, median, high)


def _estimate(draw: Estimate | float) -> Estimate:
    if isinstance(draw, Estimate):
        return draw
    return Estimate(float(draw), float(draw), float(draw), 1, "draw")
