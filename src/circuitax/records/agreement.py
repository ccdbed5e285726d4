"""Agreement of numbers computed here with those of the accepted run, claim by claim.

A smaller number of seeds is no reason for another word: intervals are wider then, and the test of
compatibility takes both.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from circuitax.records.claims import NOT_RUN, Claim, Expected, SettledClaim
from circuitax.records.estimate import Estimate

AGREES, DIFFERS, OTHER, NOT_REPEATED = "agrees", "differs", "other settings", "not repeated"
WORDS = (AGREES, DIFFERS, OTHER, NOT_REPEATED)
# How far a number without an interval may move, of its size.
ROUNDING = 1e-3


class Here(NamedTuple):
    """A claim as it was measured here, beside the accepted run.

    Attributes:
        word: ``"agrees"``: the intervals are compatible, as `tolerance` has it, or both lie wholly
            in what the claim allows, or both wholly beyond the same end of it. ``"differs"``:
            neither. ``"other settings"``: neither, and a setting differs beside the number of
            seeds. ``"not repeated"``: nothing was measured here, or nothing accepted.
        estimate: What was measured here, if anything.
        told: By how much it differs, which settings are others, or why it was not repeated.
    """

    word: str
    estimate: Estimate | None
    told: str


def tolerance(here: Estimate, there: Estimate, least_size: float = 0.0) -> float:
    """Tolerance for the difference of two noisy estimates of one quantity.

    ``sqrt(h₁² + h₂²)`` of the halves of the intervals, whose widths account for both n;
    ``ROUNDING`` times the size for numbers without an interval. A single replicate has no finite
    interval: it is held against the prediction interval of the other estimate, of half
    ``h sqrt(n + 1)``. It is infinite where neither has a finite interval.

    Args:
        here: One estimate.
        there: The other one.
        least_size: What the size is at least.
    """
    rounding = ROUNDING * max(abs(here.value), abs(there.value), least_size)
    for one, other in ((here, there), (there, here)):
        if one.n == 1 and math.isinf(_half(one)) and math.isfinite(_half(other)):
            return max(_half(other) * math.sqrt(other.n + 1), rounding)
    return max(math.hypot(_half(here), _half(there)), rounding)


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


def compare(here: SettledClaim, there: SettledClaim, settings: str) -> Here:
    """One claim in a run made here and in the accepted one.

    Args:
        here: The claim as settled by the run here.
        there: The claim as settled by the accepted run.
        settings: Settings that differ beside the number of seeds, in words; empty without any.
    """
    if here.verdict == NOT_RUN:
        return Here(NOT_REPEATED, None, here.reason)
    if there.verdict == NOT_RUN:
        return Here(NOT_REPEATED, here.estimate, "the accepted run did not measure it")
    apart = _apart(here, there)
    if not apart:
        return Here(AGREES, here.estimate, "")
    word = OTHER if settings else DIFFERS
    return Here(word, here.estimate, f"{apart}; {settings}" if settings else apart)


def _apart(here: SettledClaim, there: SettledClaim) -> str:
    """Distance of two measurements of a claim, in words; empty where they agree."""
    mine, theirs = here.estimate, there.estimate
    if mine is None or theirs is None:
        if mine is theirs:
            return ""
        return "its precondition is met only " + ("in the accepted run" if mine is None else "here")
    limits = here.claim.expected
    if (side := _side(limits, mine)) and side == _side(limits, theirs):
        return ""
    apart = abs(mine.value - theirs.value)
    allowed = tolerance(mine, theirs, _least_size(here.claim))
    if apart <= allowed:
        return ""
    if not allowed > 0:
        return "not equal"
    return f"apart {apart / allowed:.3g} times what both intervals allow"


def _side(limits: Expected, estimate: Estimate) -> str:
    """Side of the limits on which a whole interval lies; empty where it crosses one of them."""
    if limits.low <= estimate.low and estimate.high <= limits.high:
        return "inside"
    if estimate.high < limits.low:
        return "below"
    return "above" if estimate.low > limits.high else ""


def _least_size(claim: Claim) -> float:
    """Size below which the residual of an identity is rounding: its allowed limit."""
    bounds = [abs(bound) for bound in claim.expected[:2] if math.isfinite(bound)]
    return max(bounds, default=0.0) if claim.kind == "identity" else 0.0


def settings_text(here: Mapping[str, object], there: Mapping[str, object], most: int = 3) -> str:
    """The settings in which two runs differ, such as ``"optim.steps 320 for 6400"``.

    Args:
        here: Settings of the run here, by dotted field.
        there: Those of the accepted run.
        most: Settings named; of more, their number is given.
    """
    names = sorted(set(here) | set(there))
    differing = [name for name in names if here.get(name) != there.get(name)]
    told = [f"{name} {_brief(here.get(name))} for {_brief(there.get(name))}" for name in differing]
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return ", ".join(told[:most]) + more


def _brief(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def counts_here(found: Iterable[Here]) -> str:
    """Count of each word, such as ``"243 agree here, 4 differ"``."""
    words = [here.word for here in found]
    plural = {AGREES: "agree here", DIFFERS: "differ", OTHER: "at other settings"}
    return ", ".join(f"{words.count(w)} {plural.get(w, w)}" for w in WORDS if w in words)
