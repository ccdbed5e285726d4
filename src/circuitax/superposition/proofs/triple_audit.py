"""Audit of the proof for three features, by a loss that shares no formula with its bounds."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from circuitax.superposition.proofs.exact_error import exact_error
from circuitax.superposition.proofs.triple_proof import Sample

# Where members of a tile are taken: shares of its sides in gain, couplings and bias.
SHARES = ((1 / 2, 1 / 2, 1 / 2, 1 / 2), (1 / 16, 0, 1, 15 / 16), (15 / 16, 1, 1 / 16, 0))


class Audit(NamedTuple):
    """Sampled bounds of a proof compared with exact losses.

    Attributes:
        n_wrong: Bounds above the loss of a member, or no numbers: any of them would make the proof
            worthless.
    """

    n_repeated: int
    n_wrong: int


def audit(density: float, sample: Sample) -> Audit:
    """Compute the error of members of all sampled tiles in exact rationals."""
    n_wrong = 0
    for *ends, bound in zip(*sample, strict=True):
        right = bool(np.isfinite(bound).all())
        for shares in SHARES if right else ():
            parts = [Fraction(share) for share in shares]
            gain, one, two, bias = (
                Fraction(low) + part * (Fraction(high) - Fraction(low))
                for part, (low, high) in zip(parts, ends, strict=True)
            )
            weights = [i * j for i in (1 - parts[1], parts[1]) for j in (1 - parts[2], parts[2])]
            least = sum(w * Fraction(at) for w, at in zip(weights, bound.tolist(), strict=True))
            right &= least <= exact_error(Fraction(density), gain, [one, two], bias)
        n_wrong += not right
    return Audit(len(sample.bound), n_wrong)
