"""Agreement of two runs with the same specification and seed.

On another machine a sum may be taken in another order. Training carries such a rounding difference
on, so that a mean over seeds moves by less than its interval, and a computed number moves in its
last digits. What moves by more is a difference that somebody should look at.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from circuitax.records.claims import Claim, Verdict
from circuitax.records.claims_table import measured_text
from circuitax.records.estimate import Estimate

SAME, NOISE, MORE = "same", "noise", "more"
# How far a number without an interval may move, of its size.
ROUNDING = 1e-3


class Agreement(NamedTuple):
    """One claim in two runs.

    Attributes:
        claim: Its id.
        kind: ``"same"``: equal as printed, verdict included. ``"noise"``: not equal, and no further
            apart than `tolerance`. ``"more"``: further apart, or measured in one run only, or with
            another verdict.
        text: Both in words.
    """

    claim: str
    kind: str
    text: str


def tolerance(here: Estimate, there: Estimate, least_size: float = 0.0) -> float:
    """Tolerance for the difference of two noisy estimates of one quantity.

    ``sqrt(h₁² + h₂²)`` of the halves of the intervals; ``ROUNDING`` times the size for numbers
    without an interval. It is infinite where an estimate has no finite interval.

    Args:
        here: One estimate.
        there: The other one.
        least_size: What the size is at least.
    """
    halves = [(estimate.high - estimate.low) / 2 for estimate in (here, there)]
    size = max(abs(here.value), abs(there.value), least_size)
    return max(math.hypot(*halves), ROUNDING * size)


def _least_size(claim: Claim) -> float:
    """Size below which the residual of an identity is rounding: its allowed limit."""
    bounds = [abs(bound) for bound in claim.expected[:2] if math.isfinite(bound)]
    return max(bounds, default=0.0) if claim.kind == "identity" else 0.0


def compare(here: Sequence[Verdict], there: Sequence[Verdict]) -> list[Agreement]:
    """Every claim that both runs settle, in the order of the first.

    Args:
        here: Verdicts of a run.
        there: Verdicts of the run that it is held against.
    """
    before = {verdict.claim.id: verdict for verdict in there}
    return [
        _difference(verdict, before[verdict.claim.id])
        for verdict in here
        if verdict.claim.id in before
    ]


def _difference(here: Verdict, there: Verdict) -> Agreement:
    name = here.claim.id
    texts = [measured_text(verdict.estimate) for verdict in (here, there)]
    told = f"{texts[0]} here, {texts[1]} accepted"
    if here.verdict != there.verdict:
        return Agreement(name, MORE, f"{told}; verdict {there.verdict} became {here.verdict}")
    if texts[0] == texts[1]:
        return Agreement(name, SAME, told)
    if here.estimate is None or there.estimate is None:
        return Agreement(name, MORE, told)
    apart = abs(here.estimate.value - there.estimate.value)
    allowed = tolerance(here.estimate, there.estimate, _least_size(here.claim))
    if apart <= allowed:
        return Agreement(name, NOISE, told)
    times = f"{apart / allowed:.3g} times" if allowed > 0 else "not"
    return Agreement(name, MORE, f"{told}: apart {times} what noise explains")


def agreement_text(found: Mapping[str, Sequence[Agreement]], apart: Mapping[str, str]) -> str:
    """Summary of a comparison: counts first, then every claim that differs more.

    Args:
        found: Differences by experiment.
        apart: Why an experiment was not compared, by experiment.
    """
    kinds = [difference.kind for rows in found.values() for difference in rows]
    lines = []
    if kinds:
        lines.append(
            f"against the accepted runs: {len(kinds)} claims, {kinds.count(SAME)} equal as "
            f"printed, {kinds.count(NOISE)} within noise, {kinds.count(MORE)} differ more"
        )
    for name, rows in found.items():
        lines += [f"  {name}: {row.claim}: {row.text}" for row in rows if row.kind == MORE]
    if apart:
        why: dict[str, list[str]] = {}
        for name, reason in apart.items():
            why.setdefault(reason, []).append(name)
        lines += [f"not compared, {reason}: {', '.join(names)}" for reason, names in why.items()]
    return "\n".join(lines)
