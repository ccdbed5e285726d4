"""Published statements on neurons under a privileged basis (n = 10, m = 5, I = 0.75^i)."""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

COUNT = "a count"
BEST_ALONE = (
    "The weights of the best restart alone are on record; in the interval, others count by norms "
    "and purity."
)
OTHERS = Null("mismatched", "the best solution of each other density")
PAPER = ClaimSource(
    "Toy Models of Superposition, superposition in a privileged basis",
    cites=(Paper.TOY_MODELS,),
    selection="lowest loss of all restarts at the density",
    n=96,
    why=COUNT,
    origin="published",
    link=papers.TOY_MODELS,
    null=OTHERS,
)
# Starts have no monosemantic neuron and often as many features, which other densities have not.
STARTS = Null("untrained", "1,000 networks at their start, each by itself")
OURS = replace(
    PAPER, source="ours, on the paper's 1,000 models a density", cites=(), origin="ours", link=""
)

# Density: monosemantic neurons of the best solution, as published.
MONOSEMANTIC = {0.75: 5, 0.35: 3, 0.15: 2, 0.12: 1, 0.06: 0, 0.03: 0}
# Density: features represented by the best solution, as published.
REPRESENTED = {0.75: 5, 0.35: 6, 0.15: 7, 0.12: 7, 0.06: 8, 0.03: 10}
# Density: neurons of several features, of the five.
SHARED = {p: 5 - count for p, count in MONOSEMANTIC.items()}
# Densities with neurons of either class.
MIXED = tuple(p for p, count in MONOSEMANTIC.items() if 0 < count < 5)
ANEW = replace(
    OTHERS,
    how=f"{OTHERS.how}; and 80 times its own, with directions or signs of features drawn anew in "
    "the shared neurons",
)
# By all that is asked of the best solution no start would pass.
COUNTED_STARTS = replace(STARTS, how=f"{STARTS.how}, by norms and purity alone")

CLAIMS = (
    *(
        PAPER.claim(
            f"privileged-mono-p{p:g}",
            f"p = {p:g}: the best solution has {count} monosemantic neurons (nine tenths of the "
            "squared weights are one feature's, whose weight is positive)",
            near(count, 0),
            explanation=BEST_ALONE,
            printed=f"{count} monosemantic neurons",
            null=OTHERS if count else STARTS,
        )
        for p, count in MONOSEMANTIC.items()
    ),
    *(
        PAPER.claim(
            f"privileged-features-p{p:g}",
            f"p = {p:g}: the best solution represents {count} features in {SHARED[p]} shared and "
            f"{MONOSEMANTIC[p]} monosemantic neurons (1 where these counts are as printed, each "
            "feature of a norm over 0.5, alone at 1, raises its own output by more than 0.5 and "
            "more than any other, and monosemantic neurons have positive main weights, else 0)",
            near(1, 0),
            "counts; a feature comes back by half of what is put in, as its norm is over half",
            explanation=BEST_ALONE,
            printed=f"{count} features in {SHARED[p]} shared and {MONOSEMANTIC[p]} other neurons",
            null=ANEW if p in MIXED else OTHERS if MONOSEMANTIC[p] else COUNTED_STARTS,
        )
        for p, count in REPRESENTED.items()
    ),
    PAPER.claim(
        "privileged-code",
        "p = 0.35: three features as a binary code on two neurons (1 where the represented "
        "features that are alone in no neuron are three with the signs (+, +), the most important, "
        "(+, -) and (-, +) in the two shared neurons, the lesser weight at least half of the "
        "greater, else 0)",
        near(1, 0),
        "a code is there or not; the source lists the feature that is positive in both first",
        printed="three features as a binary code on two neurons",
        n=1,
        null=Null(
            "random",
            "the three features in random directions of the two neurons; and, as often, with the "
            "trained sizes and signs drawn anew",
        ),
    ),
    PAPER.claim(
        "privileged-pairs",
        "p = 0.03: every feature is a pair of neurons (different pairs over features; in a pair "
        "the second weight of a feature is at least half of its greatest, the third below a "
        "quarter)",
        at_least(0.9),
        "nine of ten: one feature may miss a threshold, or share its pair with another",
        kind="relation",
        explanation="The weights of the best restart alone are on record. The next, 5 % behind it, "
        "has two neurons for each feature too; the first with two for half of its features, 9, is "
        "8 % behind.",
        printed="density 0.04 and below: each of 10 features is a pair of 5 neurons",
    ),
    OURS.claim(
        "privileged-best-is-rare",
        "A plain run seldom finds the best solution where features are polysemantic: share of "
        "restarts within 1 % of the best loss, mean over p <= 0.15",
        at_most(0.3),
        "the paper needed 1,000 restarts",
        kind="relation",
        selection="all restarts",
        null=Null("random", "normal losses of the same mean and spread at each density"),
    ),
)
