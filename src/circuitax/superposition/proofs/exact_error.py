"""The error of one output in exact rationals, for any number of other features.

It shares no formula with `pair_loss` and `triple_loss`, whose proofs it is held against. Features
that are on fill a cube, which is cut into simplices of ordered coordinates. On each of these the
output's drive z is affine; where it changes its sign, an edge is cut at the zero, and the simplex
with it. On a simplex of volume V in n dimensions, with values f_i of an affine f at its corners,

    int f^2 = V / ((n + 1) (n + 2)) (sum_i f_i^2 + (sum_i f_i)^2).
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import factorial

# At a corner of a simplex: what the output should be, and its drive.
_Corner = tuple[Fraction, Fraction]


def exact_error(
    density: Fraction, gain: Fraction, couplings: Sequence[Fraction], bias: Fraction
) -> Fraction:
    """``E (x - relu(a x + sum_i k_i y_i + b))^2``, the expected squared error of one output.

    Source: toy-models paper, "Superposition as a Phase Change" (the model).
    """
    total = Fraction(0)
    for own, *others in product((False, True), repeat=1 + len(couplings)):
        slopes = [(Fraction(1), gain)] * own
        slopes += [(Fraction(0), k) for k, on in zip(couplings, others, strict=True) if on]
        missing = len(couplings) + 1 - len(slopes)
        share = density ** len(slopes) * (1 - density) ** missing
        total += share * _mean_square((Fraction(0), bias), slopes)
    return total


def _mean_square(start: _Corner, slopes: Sequence[_Corner]) -> Fraction:
    """The mean of ``(target - relu(drive))^2`` over the unit cube, for given slopes."""
    n, total = len(slopes), Fraction(0)
    for order in permutations(slopes):
        corners = [start]
        for slope in order:
            corners.append((corners[-1][0] + slope[0], corners[-1][1] + slope[1]))
        for share, pieces in _cut(Fraction(1), corners):
            values = [target - max(drive, Fraction(0)) for target, drive in pieces]
            total += share * (sum(v * v for v in values) + sum(values) ** 2)
    return total / (factorial(n) * (n + 1) * (n + 2))


def _cut(share: Fraction, corners: list[_Corner]) -> Iterator[tuple[Fraction, list[_Corner]]]:
    """Simplices on which the drive keeps its sign, and their shares of the volume."""
    above = next((i for i, (_, drive) in enumerate(corners) if drive > 0), None)
    below = next((i for i, (_, drive) in enumerate(corners) if drive < 0), None)
    if above is None or below is None:
        yield share, corners
        return
    (target, drive), (other, depth) = corners[above], corners[below]
    part = drive / (drive - depth)  # of the edge, from the positive corner
    middle = (target + part * (other - target), Fraction(0))
    for i, portion in ((below, part), (above, 1 - part)):
        yield from _cut(share * portion, [*corners[:i], middle, *corners[i + 1 :]])
