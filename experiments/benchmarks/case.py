"""One benchmark case: our time and a peer's, measured in alternating rounds."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from experiments.benchmarks.contention import share_of_others, usage
from experiments.benchmarks.limits import Speeds, least_seconds
from experiments.benchmarks.memory import forget_peak, peak_mb, present_mb

# A round counts as quiet while others keep at most this many processors busy, and the machine's
# matmul speed is at least this share of the best that was seen. Noisy rounds are repeated, but no
# row takes more than this many times its rounds.
OTHERS = 0.1
SLOWEST_PEAK = 0.85
PATIENCE = 3
Item = TypeVar("Item")


@dataclass(frozen=True)
class Case:
    """A measurement, its peer, and the expected ratio.

    Attributes:
        name: What is timed.
        unit: What one figure counts, such as ``"ms a step"``.
        ours: Does one round and returns its figure in ``unit``; compiled and warm beforehand.
        theirs: The same work by the peer, or None where there is only the machine's peak.
        peer: Who that is, with version and setting.
        target: Least ratio theirs / ours, or None.
        wanted: What else is wanted of ours: an amount with its unit, and a share of the limit.
        flops: Floating-point operations that one figure of ours needs at least, as multiplications
            and additions of its matrix products.
        moved: Bytes that it moves to and from memory at least.
        draws: Random words of 32 bits that it draws at least.
        floors: Limits that no speed tells, such as the imports of a process: each does its part
            of a round alone, after ours, and returns its figure in ``unit``.
        parts: Does one more round, after those that count, and says where its time or memory goes:
            shares by name.
        seconds: Factor from ``unit`` to seconds.
        once: Whether a round takes so long that there is a single one, without one beforehand.
        note: What a reader must know to judge the figure.
    """

    name: str
    unit: str
    ours: Callable[[], float]
    theirs: Callable[[], float] | None = None
    peer: str = ""
    target: float | None = None
    wanted: str = ""
    flops: float = 0.0
    moved: float = 0.0
    draws: float = 0.0
    floors: Mapping[str, Callable[[], float]] = field(default_factory=dict)
    parts: Callable[[], Mapping[str, float]] | None = None
    seconds: float = 1.0
    once: bool = False
    note: str = ""


@dataclass
class Rounds:
    """The figures of every round of one case."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    speeds: list[Speeds] = field(default_factory=list)
    floors: list[Mapping[str, float]] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)  # MB of this process during ours
    grown: list[float] = field(default_factory=list)  # of them, what was not there before

    def noisy(self) -> list[bool]:
        """Mask of rounds during which other processes used the machine."""
        slow = SLOWEST_PEAK * max(speeds.matmul for speeds in self.speeds)
        return [
            others > OTHERS or speeds.matmul < slow
            for others, speeds in zip(self.others, self.speeds, strict=True)
        ]

    def quietest(self, n_rounds: int) -> "Rounds":
        """The rounds to judge by: the quiet ones, and the least noisy where these are too few."""
        key = list(zip(self.noisy(), self.others, strict=True))
        kept = sorted(sorted(range(len(key)), key=key.__getitem__)[:n_rounds])

        def of_kept(column: list[Item]) -> list[Item]:
            return [column[i] for i in kept] if column else []

        return Rounds(
            of_kept(self.ours),
            of_kept(self.theirs),
            of_kept(self.speeds),
            of_kept(self.floors),
            of_kept(self.others),
            of_kept(self.peaks),
            of_kept(self.grown),
        )

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
            "wanted": case.wanted,
            "rounds": len(self.ours),
            "noisy_rounds": sum(self.noisy()),
            "processors_of_others": statistics.median(self.others),
            "note": case.note,
            "samples_ours": self.ours,
        }
        if self.peaks:
            row |= {"peak_mb": max(self.peaks), "grown_mb": max(self.grown)}
        if self.theirs:
            ratios = [theirs / ours for theirs, ours in zip(self.theirs, self.ours, strict=True)]
            row["theirs"] = statistics.median(self.theirs)
            row["ratio"] = statistics.median(ratios)
            row |= {"ratio_low": min(ratios), "ratio_high": max(ratios)}
            row["samples_theirs"] = self.theirs
        shares = self.shares_of_limits(case)
        if shares:
            row["limit"] = max(shares, key=shares.__getitem__)
            row["share_of_limit"] = shares[row["limit"]]
            row["shares_of_limits"] = shares
        return row

    def shares_of_limits(self, case: Case) -> dict[str, float]:
        """Time of each limit alone, as a share of ours: the median of each round's own.

        The largest is the limit that binds. At 1 the row is as good as this machine allows.
        """
        rounds = []
        for figure, speeds, floors in zip(self.ours, self.speeds, self.floors, strict=True):
            least = least_seconds(speeds, flops=case.flops, moved=case.moved, draws=case.draws)
            in_unit = {name: seconds / case.seconds for name, seconds in least.items()}
            rounds.append({name: floor / figure for name, floor in {**in_unit, **floors}.items()})
        return {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}


def measure(case: Case, n_rounds: int, speeds: Callable[[], Speeds]) -> dict[str, Any]:
    """One row from ``n_rounds`` rounds of the machine's speeds, ours, its floors, theirs, in turns.

    A round in which others used the machine is repeated. What is still noisy after ``PATIENCE``
    times the rounds counts, and the row says how many of them there are. A case that is done once
    is not repeated, and its row says whether it was noisy.

    Args:
        case: What to measure; each side runs once beforehand, uncounted, unless it is done once.
        n_rounds: At least 1; the table asks for 5 or more.
        speeds: Measures the machine's speeds.

    Raises:
        ValueError: If ``n_rounds`` is less than 1.
    """
    if n_rounds < 1:
        raise ValueError(f"n_rounds={n_rounds} must be at least 1")
    rounds = Rounds()
    if case.once:
        n_rounds, most = 1, 1
    else:
        most = PATIENCE * n_rounds
        case.ours()
        if case.theirs is not None:
            case.theirs()
    while len(rounds.ours) < most:
        before = usage()
        rounds.speeds.append(speeds())
        forget_peak()
        present = present_mb()
        rounds.ours.append(case.ours())
        rounds.peaks.append(peak_mb())
        rounds.grown.append(rounds.peaks[-1] - present)
        rounds.floors.append({name: floor() for name, floor in case.floors.items()})
        if case.theirs is not None:
            rounds.theirs.append(case.theirs())
        rounds.others.append(share_of_others(before, usage()))
        if rounds.noisy().count(False) >= n_rounds:
            break
    row = rounds.quietest(n_rounds).row(case)
    if case.parts is not None:
        row["parts"] = dict(case.parts())
    return row
