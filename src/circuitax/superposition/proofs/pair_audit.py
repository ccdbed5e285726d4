"""Bounds of a proof in intervals, repeated in balls."""

from typing import NamedTuple

from circuitax.superposition.proofs.balls import ball, ball_precision, lower_end, upper_end
from circuitax.superposition.proofs.pair_bounds import corner_bounds
from circuitax.superposition.proofs.pair_proof import Sample


class Audit(NamedTuple):
    """How the sampled bounds of a proof compare with those of balls."""

    n_repeated: int
    n_wrong: int
    """Bounds above the one in balls, which would make the proof worthless."""
    greatest_loss: float
    """By how much rounding outwards has lowered a bound, at most."""


def audit(density: float, sample: Sample, *, bits: int = 200) -> Audit:
    """Compute the bounds of all sampled tiles again, in balls of many bits.

    Args:
        density: p, as in the proof.
        sample: Of `pair_proof.prove_pair`.
        bits: Precision.

    Raises:
        ValueError: If the library of balls is not installed.
    """
    n_wrong, greatest = 0, 0.0
    with ball_precision(bits):
        for sign, *ends, bound in zip(*sample, strict=True):
            tilt, coupling, bias = ((float(low), float(high)) for low, high in ends)
            corners = corner_bounds(density, float(sign), tilt, coupling, bias, ball)
            least = corners[0][0]
            for at in (end for pair in corners for end in pair):
                least = least.min(at)
            n_wrong += bool(bound > upper_end(least))
            greatest = max(greatest, lower_end(least) - float(bound))
    return Audit(len(sample.bound), n_wrong, greatest)
