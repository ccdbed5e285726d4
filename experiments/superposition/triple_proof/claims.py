"""Claims of proof with three features in two dimensions, and the reach of the proof.

Written down after looking at one point, density 0.3 and importance 0.5, at which the superposed
class was proven at the twelfth level.
"""

from dataclasses import replace

from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import BY_PROOF, Null

THEOREM = ClaimSource(
    "branch and bound on the exact loss, n = 3, m = 2",
    kind="relation",
    why="a point would have to be wrong",
    selection="all points",
    origin="theorem",
)
REACH = replace(THEOREM, origin="ours", kind="number", why="what minutes of branch and bound reach")

CLAIMS = (
    THEOREM.claim(
        "triple-bound",
        "No proven bound is above the loss of the best of eight BFGS searches (greatest ratio)",
        at_most(1 + 1e-5),
        "the candidate that bounds from above is turned by 1e-4",
        kind="identity",
    ),
    THEOREM.claim(
        "triple-candidate",
        "The best of eight BFGS searches is never of an excluded class (share of points)",
        near(1, 0),
    ),
    REACH.claim(
        "triple-classes",
        "Which class of solutions is globally optimal is proven (share of points)",
        at_least(0.6),
        null=Null(BY_PROOF, "bounded by ball arithmetic over all weights"),
    ),
    REACH.claim(
        "triple-gap",
        "The proven bound over the best known loss (least over points)",
        at_least(0.9),
        explanation="At density and importance 0.5, where all three classes are left, the limit of "
        "boxes is reached after eleven of fifteen levels, at 0.75; at density 0.2 and importance "
        "0.1 fifteen levels end at 0.94. At the ten other points the search ends where it may, "
        "within 5 % of the loss",
        null=Null(BY_PROOF, "bounded by ball arithmetic over all weights"),
    ),
)
