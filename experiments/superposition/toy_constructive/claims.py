"""Published statements on features that occur together, and controls.

The dependent arms differ from the independent one in which features are on together, and in nothing
else. Of the source the abstract and the code are at hand: its twelve features are binary, on a
circle or another curve, in 2 to 12 dimensions, at decays of 1 and 6, and its clusters are of words.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

KINDS = Null(
    "permuted",
    "dependent and independent features, each over its best linear model, exchanged at random in "
    "each seed",
)
DECAYS = Null("permuted", "the decays are shuffled within each seed and kind of features")
INDEPENDENT = Null(
    "mismatched",
    "independent features, a network and its exchanged ones swapped in random seeds",
)
PLACED = Null("permuted", "the features are shuffled within each seed")
PARTS = Null(
    "false world",
    "in each network the features of one third, a cluster or an arc of the circle, or two or three "
    "of the four in each, keep their directions and all others exchange theirs; or the features "
    "are shuffled within each seed",
)
CIRCLES = Null(
    "false world",
    "features in six clumps on the circle, in four, three or two; on an even circle with one, two, "
    "three or six of them dead; or shuffled within each seed",
)
SOURCES = {
    "circular": "arXiv 2603.09972, twelve features with circular correlations",
    "clustered": "arXiv 2603.09972, clusters of words, on twelve features of ours",
}
PAPER = ClaimSource(
    SOURCES["circular"],
    cites=(Paper.PRIETO_2026,),
    kind="relation",
    n=16,
    selection="all seeds",
    origin="published",
    link=papers.CONSTRUCTIVE,
)
HELPFUL = replace(
    PAPER,
    printed="features are arranged by which are on together, so that interference between those "
    "that are on is constructive; the abstract has no number",
)
DECAY = replace(
    PAPER,
    printed="such arrangements are more prevalent with weight decay; the abstract has no number",
    null=DECAYS,
)
PLACES = replace(
    PAPER,
    printed="such arrangements give clusters and cyclical structures; the abstract has no number",
    null=PLACED,
)
OURS = replace(PAPER, source="ours, controls", cites=(), origin="ours", link="")
CLEARER = replace(
    OURS,
    source="Ours, beside the circles and clusters of arXiv 2603.09972",
    cites=(Paper.PRIETO_2026,),
    null=DECAYS,
)
DEPENDENT = tuple(SOURCES)
REVIVED = {
    "circular": "46 of 48 networks have the circle with decay and without it (cosines correlate "
    "above 0.99). The covariance rises in the 13 in which decay revives features that are dead "
    "without it (of norm below 0.2), and falls in the other 35.",
    "clustered": "It rises in the 22 of 48 networks in which decay revives features that are dead "
    "without it (of norm below 0.2), and in 2 of the other 26. Between features that are alive at "
    "both decays it falls, by 0.023.",
}
LEAST = (
    "23 of 48 networks have no feature below 0; of the other 25 the least lies above -0.06 in 23, "
    "and at -0.34 in two."
)
AS_DIFFERENCE = (
    "As a difference the loss falls by less than that of linear models, by 0.179 for 0.197: what "
    "they gain by dependence is helpful interference too."
)

CLAIMS = (
    *(
        replace(HELPFUL, source=SOURCES[kind]).claim(
            f"constructive-interference-{kind}",
            f"With {kind} features interference is constructive: what the others add to a feature "
            "goes with it, and more than where features are exchanged (covariance of the two over "
            "the variance of the feature, or what that is above its mean over all exchanges, the "
            "smaller, of the feature that has least in each network, without decay)",
            at_least(0),
            "a relation: independent features have 0, features that all share one direction "
            "nothing above exchanges, and a few features can carry the sum of many",
            explanation=explanation,
            null=PARTS,
        )
        for kind, explanation in (("circular", ""), ("clustered", LEAST))
    ),
    *(
        CLEARER.claim(
            f"constructive-loss-{kind}",
            f"A {kind} dependence of features lowers the loss to a smaller share than it does that "
            "of the best linear models (loss over that of independent features, over the same "
            "ratio of linear models, without decay, geometric mean)",
            at_most(1),
            "a relation",
            null=KINDS,
            explanation=explanation,
        )
        for kind, explanation in (("circular", ""), ("clustered", AS_DIFFERENCE))
    ),
    *(
        replace(DECAY, source=SOURCES[kind]).claim(
            f"constructive-decay-{kind}",
            f"With weight decay interference is more constructive between {kind} features "
            "(share of networks in which the covariance of a feature with what the others add to "
            "it, over its variance, is greater at decay 0.3 than without decay)",
            at_least(0.5),
            "at least half; decay that does nothing has half",
            explanation=REVIVED[kind],
        )
        for kind in DEPENDENT
    ),
    *(
        replace(HELPFUL, source=SOURCES[kind]).claim(
            f"constructive-arranged-{kind}",
            f"The arrangement is what helps: with {kind} features, exchanging the directions "
            "raises the loss (loss over that of random exchanges, without decay)",
            at_most(1),
            "a relation",
            null=INDEPENDENT,
        )
        for kind in DEPENDENT
    ),
    PLACES.claim(
        "constructive-circle",
        "Features on a circle are arranged on a circle (share of seeds in which the product W^T W "
        "of two features has a correlation of at least 0.95 with the cosine of their places, "
        "decay 0.1)",
        at_least(0.8),
        "most networks; six clumps of two features on a circle have a correlation of 0.92, and so "
        "has a circle with one dead feature",
        explanation="7 of 48 networks have a dead feature (of norm 0.05, the others 0.63), and "
        "two have no circle; the cosine, which has no length, follows places in 46.",
        null=CIRCLES,
    ),
    CLEARER.claim(
        "constructive-circle-decay",
        "Weight decay makes the circle clearer (correlation over pairs of the cosine between two "
        "features with that of their places, at decay 0.3 less that without decay)",
        at_least(0),
        "a relation",
        explanation="if decay makes a difference here, it is perhaps smaller than what "
        "48 seeds can tell from none",
    ),
    replace(PLACES, source=SOURCES["clustered"]).claim(
        "constructive-clusters",
        "Features of a cluster lie side by side (mean cosine inside clusters less that between "
        "them, decay 0.1)",
        at_least(1),
        "most of the range of cosines",
        explanation="With little decay one feature of a cluster often leaves the others, towards "
        "the free side of the circle; at 0.3 the mean is above 1.",
    ),
    CLEARER.claim(
        "constructive-clusters-decay",
        "Weight decay makes clusters clearer (that difference at decay 0.3 less that without "
        "decay)",
        at_least(0),
        "a relation",
    ),
    OURS.claim(
        "constructive-control",
        "Exchanging the directions of independent features changes nothing (absolute change of "
        "the loss over the loss, mean over decays)",
        at_most(0.02),
        "sampling noise of the exam, and biases that differ a little",
        null=Null(
            "mismatched",
            "directions of features that do depend on each other are exchanged",
        ),
    ),
    OURS.claim(
        "constructive-linear",
        "Without decay the loss is below that of the best linear model, which has principal "
        "components (greatest ratio of the mean over seeds, all kinds)",
        at_most(1),
        "the ReLU may be used or not",
        null=Null(
            "permuted",
            "the network and the linear model exchanged at random in each seed of each kind",
        ),
    ),
)
