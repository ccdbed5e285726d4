"""Contention: the share of the machine used by other processes during a round.

A second job can slow a peer's threads, which wait for each other, five times and ours hardly, so
that a ratio from a busy machine means nothing. The kernel says how long the processors were busy,
and for how long with processes of ours; the rest is others'.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
# Fields of /proc/stat that are work: user, nice, system, irq, softirq, steal.
_BUSY = (0, 1, 2, 5, 6, 7)


class Usage(NamedTuple):
    """Seconds of processor time until now: of the whole machine, of ours, and the clock."""

    machine: float
    ours: float
    clock: float


def usage() -> Usage | None:
    """Resource use so far; None on systems that do not report it."""
    try:
        fields = (_PROC / "stat").read_text().split("\n")[0].split()[1:]
        tick = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    busy = sum(int(fields[index]) for index in _BUSY if index < len(fields))
    ours = sum(_ticks(process) for process in family(os.getpid()))
    return Usage(busy / tick, ours / tick, time.monotonic())


def share_of_others(before: Usage | None, after: Usage | None) -> float:
    """Mean number of processors busy for others between two moments; 0 if unknown.

    The kernel counts in hundredths of a second, so that moments must be tenths apart or more.
    """
    if before is None or after is None or after.clock <= before.clock:
        return 0.0
    others = (after.machine - before.machine) - (after.ours - before.ours)
    return max(0.0, others / (after.clock - before.clock))


def family(root: int) -> set[int]:
    """A process and all that descend from it: peers run in processes of their own."""
    parents = {}
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields:
                parents[int(entry.name)] = int(fields[1])
    found = {root}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
    return found


def _ticks(process: int) -> int:
    """Processor time of a process and of its children that have ended."""
    fields = _stat(process)
    return sum(int(fields[index]) for index in (11, 12, 13, 14)) if fields else 0


def _stat(process: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name in brackets: state, parent, ..."""
    try:
        return (_PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return []
