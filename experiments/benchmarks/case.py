"""One benchmark case: our time and a peer's, measured in alternating rounds."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from experiments.benchmarks.contention import share_of_others, usage

# A round counts as quiet while others keep at most this many processors busy, and the machine's
# matmul speed is at least this share of the best that was seen. Noisy rounds are repeated, but no
# row takes more than this many times its rounds.
OTHERS = 0.1
SLOWEST_PEAK = 0.85
PATIENCE = 3


@dataclass(frozen=True)
class Case:
    """What is measured, against what, and what is expected of it.

    Attributes:
        name: What is timed.
        unit: What one figure counts, such as ``"ms a step"``.
        ours: Does one round and returns its figure in ``unit``; compiled and warm beforehand.
        theirs: The same work by the peer, or None where there is only the machine's peak.
        peer: Who that is, with version and setting.
        target: Least ratio theirs / ours, or None.
        flops: Floating-point operations that ours needs, as multiplications and additions of its
            matrix products; gives the share of the machine's matmul peak.
        seconds: Factor from ``unit`` to seconds.
        note: What a reader must know to judge the figure.
    """

    name: str
    unit: str
    ours: Callable[[], float]
    theirs: Callable[[], float] | None = None
    peer: str = ""
    target: float | None = None
    flops: float | None = None
    seconds: float = 1.0
    note: str = ""


@dataclass
class Rounds:
    """The figures of every round of one case."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def noisy(self) -> list[bool]:
        """Which rounds were measured while others used the machine."""
        slow = SLOWEST_PEAK * max(self.peak)
        return [
            others > OTHERS or peak < slow
            for others, peak in zip(self.others, self.peak, strict=True)
        ]

    def quietest(self, n_rounds: int) -> "Rounds":
        """The rounds to judge by: the quiet ones, and the least noisy where these are too few."""
        key = list(zip(self.noisy(), self.others, strict=True))
        kept = sorted(sorted(range(len(key)), key=key.__getitem__)[:n_rounds])
        columns = (self.ours, self.theirs, self.peak, self.others)
        return Rounds(*([column[i] for i in kept] if column else [] for column in columns))

    def row(self, case: Case) -> dict[str, Any]:
        """One row of the table: medians, and the ratio as the median of each round's own.

        Rounds are paired since load drifts on a shared machine: both sides of one round saw the
        same. ``ratio_low`` and ``ratio_high`` are the least and the largest round.
        """
        ours = statistics.median(self.ours)
        row: dict[str, Any] = {
            "name": case.name,
            "unit": case.unit,
            "ours": ours,
            "peer": case.peer,
            "target": case.target,
            "rounds": len(self.ours),
            "noisy_rounds": sum(self.noisy()),
            "processors_of_others": statistics.median(self.others),
            "note": case.note,
            "samples_ours": self.ours,
        }
        if self.theirs:
            ratios = [theirs / ours for theirs, ours in zip(self.theirs, self.ours, strict=True)]
            row["theirs"] = statistics.median(self.theirs)
            row["ratio"] = statistics.median(ratios)
            row |= {"ratio_low": min(ratios), "ratio_high": max(ratios)}
            row["samples_theirs"] = self.theirs
        if case.flops is not None:
            speed = [case.flops / (figure * case.seconds) / 1e9 for figure in self.ours]
            shares = [s / peak for s, peak in zip(speed, self.peak, strict=True)]
            row["gflops_per_second"] = statistics.median(speed)
            row["share_of_peak"] = statistics.median(shares)
        return row


def measure(case: Case, n_rounds: int, peak: Callable[[], float]) -> dict[str, Any]:
    """One row from ``n_rounds`` rounds of peak, ours, theirs, in turns.

    A round in which others used the machine is repeated. What is still noisy after ``PATIENCE``
    times the rounds counts, and the row says how many of them there are.

    Args:
        case: What to measure; each side runs once beforehand, uncounted.
        n_rounds: At least 1; the table asks for 5 or more.
        peak: Measures the machine's matmul speed in GFLOP/s.

    Raises:
        ValueError: If ``n_rounds`` is less than 1.
    """
    if n_rounds < 1:
        raise ValueError(f"n_rounds={n_rounds} must be at least 1")
    rounds = Rounds()
    case.ours()
    if case.theirs is not None:
        case.theirs()
    while len(rounds.ours) < PATIENCE * n_rounds:
        before = usage()
        rounds.peak.append(peak())
        rounds.ours.append(case.ours())
        if case.theirs is not None:
            rounds.theirs.append(case.theirs())
        rounds.others.append(share_of_others(before, usage()))
        if rounds.noisy().count(False) >= n_rounds:
            break
    return rounds.quietest(n_rounds).row(case)
