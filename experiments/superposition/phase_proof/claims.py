"""Claims of proof about the phase diagram.

Theorems are proofs by computer: a claim counts what was proven, and its tolerance says how much of
the grid may stay open. They were written down after looking at single points, and before any grid.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import BY_PROOF, Null
from circuitax.records.papers import Paper

THEOREM = ClaimSource(
    "branch and bound on the exact loss, n = 2, m = 1",
    kind="relation",
    why="what stays open lies close to a boundary",
    selection="all points of the grid",
    origin="theorem",
)
AGREEMENT = replace(
    THEOREM, why="a point would have to be wrong", selection="all points whose class is proven"
)
OURS = replace(THEOREM, origin="ours", kind="number", selection="one interval, nothing is selected")
PAPER = ClaimSource(
    "Toy Models of Superposition, superposition as a phase change",
    cites=(Paper.TOY_MODELS,),
    kind="relation",
    selection="all enclosed boundaries at density 0.3 or less",
    origin="published",
    link=papers.TOY_MODELS,
)
FAMILIES = replace(
    OURS,
    source="best members of both families, n = 5, m = 2, equal importances",
    why="three digits",
)

CLAIMS = (
    THEOREM.claim(
        "proof-classes",
        "Which class of solutions is globally optimal is proven (share of the grid)",
        at_least(0.98),
    ),
    THEOREM.claim(
        "proof-losses",
        "The optimal loss is enclosed to 1e-6 (share of the grid)",
        at_least(0.98),
    ),
    AGREEMENT.claim(
        "proof-optimiser-class",
        "The best of eight BFGS searches is of the proven class (share of proven points)",
        near(1, 0),
    ),
    AGREEMENT.claim(
        "proof-optimiser-loss",
        "The best of eight BFGS searches has the proven loss (share of proven points whose "
        "enclosure, widened by 1e-12, holds it)",
        near(1, 0),
    ),
    AGREEMENT.claim(
        "proof-closed-form-class",
        "The closed forms name the proven class (share of proven points)",
        at_least(0.85),
        "the blur around the boundaries",
        origin="ours",
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    THEOREM.claim(
        "proof-closed-form-loss",
        "No closed form is below the proven lower bound (greatest ratio of bound to closed form)",
        at_most(1),
        "the closed forms are feasible points",
    ),
    THEOREM.claim(
        "proof-formula",
        "The closed form that is proven about is the exact engine's loss (greatest difference at "
        "the optimiser's solutions)",
        at_most(1e-12),
        "rounding in float64",
        kind="identity",
    ),
    THEOREM.claim(
        "proof-balls",
        "Bounds repeated in balls of 200 bits that turn out too high (count)",
        near(0, 0),
        "one would make the proof worthless",
        selection="a fixed sample of every column",
    ),
    OURS.claim(
        "proof-boundaries",
        "The importance at which the last feature ceases to be ignored is enclosed (greatest "
        "relative width over all densities asked for)",
        at_most(6e-3),
        "two steps of 3e-3",
        selection="all densities asked for",
        explanation="at density 0.02 the search ends at its limit of tiles: the gains that cannot "
        "be excluded beforehand grow like 1/p; at the other seven the width is 2e-4",
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    PAPER.claim(
        "proof-first-order",
        "Between two importances that enclose a boundary the norm of the last feature differs, for "
        "every minimiser, as it does where a change is of first order (least proven difference)",
        at_least(0.5),
        "half of a represented feature",
        printed="a change of first order: the optimal loss is continuous, its derivative jumps",
        null=Null("theorem", "a proven range: where nothing is proven, any jump is left"),
        explanation="nothing is proven at density 0.02, and at 0.1 the proven ranges of the norm "
        "are wide; at 0.2 and 0.3 the difference is proven to be above 0.6. Two importances are "
        "compared, so that a steep and continuous rise between them is not excluded",
    ),
    OURS.claim(
        "proof-triple-point",
        "At importance 1 the minimisers cease to be symmetric pairs between two densities (their "
        "distance)",
        at_most(2e-3),
        "two steps of 1e-3",
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    OURS.claim(
        "proof-triple-place",
        "The triple point of the exact optimum lies far denser than that of the closed forms "
        "(its density less 4/7)",
        near(0.135, 5e-3),
        "single points looked at beforehand put it between 0.705 and 0.71",
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    OURS.claim(
        "proof-weak",
        "At density 0.8 and importance 0.95 every minimiser keeps the last feature with a small "
        "norm, which no closed form does (least and greatest norm)",
        near(0.3, 0.15),
        "neither dropped nor represented",
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    FAMILIES.claim(
        "proof-crossing",
        "The best regular pentagon overtakes two digons between two densities (their distance)",
        at_most(1e-3),
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    FAMILIES.claim(
        "proof-crossing-place",
        "The pentagon overtakes two digons at density 0.2249",
        near(0.2249, 1e-3),
        "looked at beforehand in float64",
        null=Null(BY_PROOF, "enclosed by ball arithmetic over all weights"),
    ),
    FAMILIES.claim(
        "proof-crossing-once",
        "On the densities looked at, the pentagon is proven better below the crossing and two "
        "digons above it (share)",
        near(1, 0),
        "a density would have to be wrong",
        kind="relation",
        origin="theorem",
        selection="all densities of the grid",
    ),
)
