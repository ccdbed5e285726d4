"""Claims on the cost of each computation: its growth with size.

An exponent is the slope of log cost over log size at the three largest sizes.
"""

from circuitax.records.claims import ClaimSource, at_most, between
from circuitax.records.nulls import Null

OURS = ClaimSource(
    "our own statement",
    kind="relation",
    n=3,
    selection="the three largest sizes, all rounds",
    why="a tenth is left for what does not grow, and for noise",
    origin="ours",
    null=Null("false world", "cost grows by one more power of the size"),
)
CLAIMS = (
    OURS.claim(
        "cost-heads",
        "Composition scores of all pairs cost at most the square of the number of heads: exponent "
        "of processor time",
        at_most(2.0),
        "the Grams grow as the heads and the pairs as their square, so it lies between",
    ),
    OURS.claim(
        "cost-heads-memory",
        "Their memory grows as the weights do: exponent",
        at_most(1.1),
    ),
    OURS.claim(
        "cost-vocabulary",
        "The search of a V × V circuit costs the square of the vocabulary: exponent of processor "
        "time",
        between(1.8, 2.2),
        explanation="the measured value lies at the limit itself, so that more sizes "
        "and rounds narrow the interval without deciding",
    ),
    OURS.claim(
        "cost-vocabulary-memory",
        "No V × V matrix is held: exponent of memory",
        at_most(1.1),
    ),
    OURS.claim(
        "cost-paths",
        "The largest paths are found in less than the square root of the number of paths, which "
        "is what meeting in the middle costs: exponent of processor time",
        at_most(0.5),
        "a relation",
    ),
    OURS.claim(
        "cost-members",
        "Toy models trained together cost no more each when they are more: exponent of processor "
        "time",
        at_most(1.1),
    ),
    OURS.claim(
        "cost-members-memory",
        "Their memory grows as their number: exponent",
        at_most(1.1),
    ),
    OURS.claim(
        "cost-points",
        "The distortion of all pairs costs the square of the number of points: exponent of "
        "processor time",
        between(1.8, 2.2),
        explanation="the measured value lies at the limit itself, so that more sizes "
        "and rounds narrow the interval without deciding",
    ),
    OURS.claim(
        "cost-points-memory",
        "No matrix of all pairs is held: exponent of memory",
        at_most(1.1),
    ),
    OURS.claim(
        "cost-dimensions",
        "It costs at most in proportion to the dimension: exponent of processor time",
        at_most(1.1),
    ),
    OURS.claim(
        "cost-dimensions-memory",
        "Its memory grows at most in proportion to the dimension: exponent",
        at_most(1.1),
    ),
)
