"""Audit of the proof for two features, by another arithmetic and another loss.

Balls repeat the bound that the search computed, and so find what rounding did to it. They share
its formulas; the loss of members of the tile in exact rationals (`exact_error`) does not, and must
not lie below the bound.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import hypot, isfinite
from typing import NamedTuple

from circuitax.superposition.proofs.balls import ball, ball_precision, lower_end, upper_end
from circuitax.superposition.proofs.exact_error import exact_error
from circuitax.superposition.proofs.pair_bounds import corner_bounds
from circuitax.superposition.proofs.pair_proof import Sample

# Where members of a tile are taken: shares of its sides in tilt, coupling and bias.
SHARES = ((1 / 2, 1 / 2, 1 / 2), (1 / 16, 15 / 16, 1 / 16), (15 / 16, 1 / 16, 15 / 16))

Ends = tuple[float, float]


class Audit(NamedTuple):
    """Sampled bounds of a proof compared with independent values.

    Attributes:
        n_wrong: Bounds above the one in balls or above the loss of a member, or no numbers: any of
            them would make the proof worthless.
        greatest_loss: By how much rounding outwards has lowered a bound, at most.
    """

    n_repeated: int
    n_wrong: int
    greatest_loss: float


def audit(density: float, sample: Sample, *, bits: int = 200) -> Audit:
    """Recompute the bounds of all sampled tiles in balls, and the loss of some members."""
    n_wrong, greatest = 0, 0.0
    with ball_precision(bits):
        for number, *ends, value in zip(*sample, strict=True):
            sign, bound = float(number), float(value)
            tilt, coupling, bias = ((float(low), float(high)) for low, high in ends)
            corners = corner_bounds(density, sign, tilt, coupling, bias, ball)
            least = corners[0][0]
            for at in (end for pair in corners for end in pair):
                least = least.min(at)
            members = _members(sign, tilt, coupling, bias)
            losses = [exact_error(Fraction(density), *member) for member in members]
            # What is not a number compares with nothing.
            above = upper_end(least)
            right = isfinite(above) and bound <= above and bool(losses)
            n_wrong += not (right and bound <= min(losses))
            greatest = max(greatest, lower_end(least) - bound)
    return Audit(len(sample.bound), n_wrong, greatest)


def _members(
    sign: float, tilt: Ends, coupling: Ends, bias: Ends
) -> Iterator[tuple[Fraction, list[Fraction], Fraction]]:
    """Gain, coupling and bias of some points of a tile."""
    for shares in SHARES:
        parts = zip(shares, (tilt, coupling, bias), strict=True)
        signed, k, b = (low + share * (high - low) for share, (low, high) in parts)
        signed *= sign
        gain = hypot(signed, k) + abs(signed)
        if signed < 0:  # the difference of two large numbers, without their rounding
            gain = k * k / gain
        a, coupled = Fraction(gain), Fraction(k)
        if tilt[0] <= int(sign) * (a - coupled * coupled / a) / 2 <= tilt[1]:
            yield a, [coupled], Fraction(b)
