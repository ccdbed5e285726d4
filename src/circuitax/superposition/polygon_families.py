"""Regular polygons and digons as families of two parameters, with proven minima.

A member of a family has features of one norm and one bias, whose cosines are fixed: two antipodal
features, or the five of a regular pentagon. Output 1 of a member with gain g and bias ``g beta`` is
``g relu(z)``, ``z = x_1 + sum_j c_j x_j + beta``, and its expected squared error

    p/3 - 2 g P(beta) + g^2 Q(beta),       P = E[x_1 relu(z)],  Q = E[relu(z)^2],

is least at ``g = P/Q``, where it is ``p/3 - P^2/Q``. So one number is left, and the family's best
loss is a maximum of ``P^2/Q`` over beta. Both are sums of truncated powers: with features x_j on
[0, 1] and coefficients a_j, m of them,

    int relu(sum_j a_j x_j + t)^n dx
        = n!/((n + m)! prod_j a_j) sum_T (-1)^(m - |T|) relu(t + sum_T a_j)^(n + m)

over all subsets T. Functions take floats or balls, of which only balls prove anything.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from math import factorial, prod
from typing import NamedTuple

import numpy as np
from scipy import optimize

from circuitax.kernel.checks import check_range
from circuitax.superposition.intervals import (
    Number,
    ball,
    ball_precision,
    cosine_of_turn,
    lower_end,
    relu,
    upper_end,
)


class Moments(NamedTuple):
    """Terms of the family's error at one beta.

    Attributes:
        work: P.
        energy: Q.
        slope: Q'.
        reach: Probability that feature 1 is on and z positive: ``P^2/Q`` is not above it
            (Cauchy-Schwarz, since features are at most 1).
    """

    work: Number
    energy: Number
    slope: Number
    reach: Number


class Maximum(NamedTuple):
    """An enclosure of ``max P^2/Q`` between two floats; the first is attained."""

    least: float
    most: float
    n_intervals: int


class FamilyLoss(NamedTuple):
    """An enclosure of the family's least sum loss between two floats.

    Attributes:
        beta: Bias in gains, near the best.
    """

    lower: float
    upper: float
    beta: float
    n_intervals: int


class PowerSum(NamedTuple):
    """The truncated powers of one set of active features.

    Attributes:
        product: Of their coefficients.
        terms: Sign and sum of coefficients, for every subset.
    """

    n_active: int
    product: Number
    terms: list[tuple[int, Number]]

    def mean(self, shift: Number, power: int) -> Number:
        """``int relu(sum_j a_j x_j + shift)^power dx``; power 0 is the volume of the active set."""
        m = self.n_active
        if m == power == 0:
            raise ValueError("power=0 of no feature at all is a step and has no continuous value")
        total = sum(sign * relu(shift + at) ** (power + m) for sign, at in self.terms)
        return total * factorial(power) / factorial(power + m) / self.product


class Pattern(NamedTuple):
    """Active other features, up to symmetry.

    Attributes:
        n_alike: Patterns that are alike.
        alone: Of the others only; feature 1 is off.
        joined: With feature 1.
    """

    n_on: int
    n_alike: int
    alone: PowerSum
    joined: PowerSum


class Family(NamedTuple):
    """A regular k-gon, with the patterns of its k - 1 other features.

    Attributes:
        reach: Least beta at which every output is on for every input.
    """

    k: int
    patterns: list[Pattern]
    reach: Number


def polygon_family(k: int, cosine: Callable[[int, int], Number]) -> Family:
    """The regular k-gon; k = 2 is the digon."""
    if k < 2 or k % 4 == 0:
        raise ValueError(f"k={k} must be at least 2 and not a multiple of 4")
    values = {j: cosine(j, k) for j in range(1, k // 2 + 1)}
    alike = Counter(
        tuple(sorted(min(j, k - j) for j in on))
        for size in range(k)
        for on in combinations(range(1, k), size)
    )
    one = 1 + 0 * values[1]
    patterns = []
    for on, count in alike.items():
        others = [values[j] for j in on]
        patterns.append(Pattern(len(on), count, _power_sum(others), _power_sum([*others, one])))
    reach = sum(relu(-values[min(j, k - j)]) for j in range(1, k))
    return Family(k, patterns, reach)


def family_moments(family: Family, density: Number, beta: Number) -> Moments:
    """P, Q, Q' and the reach of the family at ``beta``."""
    p, q = density, 1 - density
    work = energy = slope = reach = 0 * density
    for pattern in family.patterns:
        weight = pattern.n_alike * p**pattern.n_on * q ** (family.k - 1 - pattern.n_on)
        alone, joined = pattern.alone, pattern.joined
        squares = joined.mean(beta, 2)
        # int x relu(x + t) dx = relu(1 + t)^2 / 2 - int relu(x + t)^2 dx / 2
        work = work + weight * p * (alone.mean(beta + 1, 2) - squares) / 2
        energy = energy + weight * (q * alone.mean(beta, 2) + p * squares)
        slope = slope + 2 * weight * (q * alone.mean(beta, 1) + p * joined.mean(beta, 1))
        reach = reach + weight * p * joined.mean(beta, 0)
    return Moments(work, energy, slope, reach)


def best_member(k: int, density: float) -> tuple[float, float]:
    """The least sum loss of the family and its beta, by an unproven search over floats."""
    family = polygon_family(k, lambda part, whole: float(np.cos(2 * np.pi * part / whole)))

    def loss(beta: float) -> float:
        at = family_moments(family, density, float(beta))
        return k * (density / 3 - at.work**2 / at.energy)

    grid = np.linspace(-0.9, 1.0, 39) * float(family.reach)
    middle = int(np.argmin([loss(beta) for beta in grid[1:-1]])) + 1
    found = optimize.minimize_scalar(
        loss, bounds=(grid[middle - 1], grid[middle + 1]), method="bounded", options={"xatol": 1e-9}
    )
    return float(found.fun), float(found.x)


def proven_maximum(
    moments: Callable[[Number], Moments],
    beta: float,
    range_: tuple[float, float],
    exact: Callable[[float], Number],
    *,
    tolerance: float,
    max_intervals: int = 20_000,
) -> Maximum:
    """Prove that ``P^2/Q`` on a range exceeds its value at one beta by a tolerance at most.

    On an interval, P is convex and positive, so that P^2 lies below its chord; Q is convex and lies
    above its tangent at the middle. If the chord is below V times the tangent at both ends, it is
    so in between, and ``P^2/Q <= V``. Other intervals are halved.
    """
    at = moments(exact(beta))
    least = at.work * at.work / at.energy
    most = least * (1 + exact(tolerance))
    waiting, n_intervals = [range_], 0
    while waiting:
        low, high = waiting.pop()
        n_intervals += 1
        if n_intervals > max_intervals:
            raise ValueError(
                f"max_intervals={max_intervals} do not prove that P^2/Q is at most {most} "
                f"near beta={low}: is beta={beta} the maximum?"
            )
        middle = 0.5 * (low + high)
        right = moments(exact(high))
        if right.reach <= most or _below(moments, low, middle, right, exact(high), most, exact):
            continue
        waiting += [(low, middle), (middle, high)]
    return Maximum(lower_end(least), upper_end(most), n_intervals)


def proven_loss(k: int, density: float, *, tolerance: float = 1e-9, bits: int = 128) -> FamilyLoss:
    """Enclose the least loss of the regular k-gon of k features, summed over its features.

    Source: exact loss of the toy-models paper; reduction and proof are ours.
    """
    check_range("density", density, "(0, 1]")
    check_range("tolerance", tolerance, "(0, 1]")
    if k not in (2, 5):
        raise ValueError(f"k={k} must be 2 or 5")
    _, beta = best_member(k, density)
    with ball_precision(bits):
        family, p = polygon_family(k, cosine_of_turn), ball(density)
        reach = upper_end(family.reach)
        found = proven_maximum(
            lambda at: family_moments(family, p, at),
            beta,
            (-reach, reach),
            ball,
            tolerance=tolerance,
        )
        least, most = (k * (p / 3 - ball(value)) for value in (found.most, found.least))
        return FamilyLoss(lower_end(least), upper_end(most), beta, found.n_intervals)


def _below(
    moments: Callable[[Number], Moments],
    low: float,
    middle: float,
    right: Moments,
    high: Number,
    most: Number,
    exact: Callable[[float], Number],
) -> bool:
    left, centre, m = moments(exact(low)), moments(exact(middle)), exact(middle)
    return all(
        bool(end.work * end.work <= most * (centre.energy + centre.slope * (at - m)))
        for end, at in ((left, exact(low)), (right, high))
    )


def _power_sum(coefficients: Sequence[Number]) -> PowerSum:
    m = len(coefficients)
    terms = [
        ((-1) ** (m - size), sum(chosen))
        for size in range(m + 1)
        for chosen in combinations(coefficients, size)
    ]
    return PowerSum(m, prod(coefficients), terms)
