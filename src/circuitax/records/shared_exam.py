"""Intervals over seeds that all sat one exam, such as the same held-out texts."""

from collections.abc import Iterable, Mapping
from math import sqrt

from circuitax.records.estimate import Estimate


def widened(estimates: Mapping[str, Estimate], shares: Mapping[str, float]) -> dict[str, Estimate]:
    """Estimates whose intervals hold the noise of an exam that all seeds share.

    The variance of a mean is that of its seeds and that of its exam, ``V = V_seeds + V_exam``, of
    which seeds show the first alone. With the share ``s = V_exam / V`` known from other exams,
    ``V = V_seeds / (1 - s)``: both ends move away from the value by the factor ``1 / sqrt(1 - s)``.

    Args:
        estimates: By name; those without a share stay as they are.
        shares: Share of the variance of the mean that the common exam has, in [0, 1), by name.
            `docs/checks.md` tells where each was measured, and on how many exams.

    Raises:
        ValueError: If a share is not in [0, 1).
    """
    found = dict(estimates)
    for name in estimates.keys() & shares.keys():
        share, (value, low, high, n, method) = shares[name], estimates[name]
        if not 0 <= share < 1:
            raise ValueError(f"share={share} of {name!r} must be in [0, 1)")
        factor = 1 / sqrt(1 - share)
        ends = value - factor * (value - low), value + factor * (high - value)
        told = f"{method}, widened for the shared exam ({share:.0%} of the variance)"
        found[name] = Estimate(value, *ends, n, told)
    return found


def over_seeds_only(
    estimates: Mapping[str, Estimate],
    names: Iterable[str],
    units: str = "seeds",
    exam: str = "their common texts are",
) -> dict[str, Estimate]:
    """Estimates that say of their interval that it leaves the shared exam out.

    For exams whose share of the variance was not measured.

    Args:
        estimates: By name.
        names: Which of them were measured on an exam that all seeds share.
        units: Units that the interval is over.
        exam: Subject and verb of what is left out.
    """
    found = dict(estimates)
    for name in estimates.keys() & set(names):
        method = f"{estimates[name].method}, over {units} only: {exam} left out"
        found[name] = estimates[name]._replace(method=method)
    return found
