"""Published statements on linear and ReLU models over sparsity.

T7 is a result of the toy-models table in docs/acceptance.md.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

NOISE = "Adam's noise, and the official weight decay"
DENSER = Null("mismatched", "denser features, p of 0.03 and more")
START = Null("untrained", "as many networks at their start, where biases are 0")
ELSEWHERE = Null("mismatched", "the networks of each other density")
PAPER = ClaimSource(
    "Toy Models of Superposition, demonstrating superposition (n = 20, m = 5, I = 0.7^i)",
    cites=(Paper.TOY_MODELS,),
    kind="relation",
    why=NOISE,
    n=8,
    origin="published",
    link=papers.TOY_MODELS,
    null=START,
)
JAX = replace(
    PAPER,
    source="Replication in JAX (A. Donath) of demonstrating superposition (one seed)",
    kind="number",
    link=papers.TOY_MODELS_JAX,
)
NOTEBOOK = ClaimSource(
    "Official notebook of Toy Models of Superposition, features against sparsity (two saved runs)",
    cites=(Paper.TOY_MODELS,),
    why="both runs print the same; seeds of ours differ by about one",
    n=8,
    origin="published",
    link=papers.TOY_MODELS_CODE,
)
# The networks of the densities beside one are nearer to its numbers than those at a start are.
BESIDE = {
    p: Null("mismatched", f"the {beside}")
    for p, beside in {
        1.0: "density beside it, 0.53",
        0.53: "densities beside it, 1 and 0.21",
        0.21: "densities beside it, 0.53 and 0.059",
        0.059: "density beside it, 0.21",
    }.items()
}
OURS = replace(
    PAPER,
    source="Ours, on demonstrating superposition",
    cites=(),
    n=1,
    origin="ours",
    link="",
    null=None,
)

MORE = (
    "The best optimum known has 13 at this density; the published count is of one seed after "
    "10,000 steps, and ours have 4,000."
)
PAIRS = (
    "18 of 32 networks have the 9 features that are printed, twelve have 10 and two have 8. The "
    "network printed has four pairs and a feature alone, which is not asked: so have 16, the best "
    "among them; ten have five pairs."
)
EIGHTS = (
    "20 of 32 networks have the seven features that are printed, eleven have eight, one has nine."
)
SPREAD = (
    "14 of 32 networks have the 11 features that are printed, twelve have 12, three have 10 and "
    "three have 13."
)
ABOVE_COUNT = (
    "Four of 32 networks have the 37 features that both runs print, 14 have 38 and 14 have 39. The "
    "notebook's learning rate, batch and number of steps are others; what they do was not tried."
)
ABOVE_SQUARE = (
    "It is above the 37.2 of both runs in all 32 networks, from 37.27 to 39.38. The notebook's "
    "learning rate, batch and number of steps are others; what they do was not tried."
)

# Density: features with norm above 0.5, one seed each.
COUNTS = {1.0: 5, 0.3: 7, 0.1: 9, 0.03: 10, 0.01: 11, 0.003: 11, 0.001: 12}
# By how many a seed's count may miss the one that is printed, on average: half a feature. At
# p = 0.03 that, asked for after the look, would make the claim hold, so one stays allowed.
ALLOWED = dict.fromkeys(COUNTS, 0.5) | {0.03: 1.0}
HALF = "half a feature: networks of one more, or of one less, are not allowed"
WHY_ALLOWED = {0.03: "half would make it hold, after the look: it stays as it was"}
# Density, to two digits: features with norm above 0.5, and squared Frobenius norm (middle of two).
NOTEBOOK_COUNTS = {1.0: 20.0, 0.53: 24.0, 0.21: 37.0, 0.059: 50.5}
NOTEBOOK_SQUARES = {1.0: 20.0, 0.53: 23.1, 0.21: 37.2}
# By how much a seed's square may miss them, on average.
SQUARE_ALLOWED = {1.0: 0.1, 0.53: 1.0, 0.21: 1.0}
# The density at which the two runs differ.
APART = 0.059
# What is judged by the distance of each seed from what is printed.
RANGES = {
    ("count", 1.0): (20, 20),
    ("count", 0.53): (24, 24),
    ("count", APART): (50, 51),
    ("frobenius", APART): (55, 57),
    **{("frobenius", p): (square, square) for p, square in NOTEBOOK_SQUARES.items()},
}
# The counts among these: as they are printed, and why a claim does not hold.
PRINTED = {
    1.0: ("20", ""),
    0.53: (
        "24",
        "14 of 32 networks have the 24 features that both runs print, 13 have 23, four have 25 and "
        "one has 22.",
    ),
    APART: (
        "50 to 51",
        "16 of 32 networks have the 50 to 51 features that the two runs print, 13 have 52, two "
        "have 53 and one has 49.",
    ),
}


def _one_off(p: float) -> Null:
    """The null of a count: a density beside it, and networks that all miss it by one."""
    least, most = RANGES["count", p]
    worlds = f"all networks with {least - 1} features, or all with {most + 1}"
    return replace(BESIDE[p], how=f"{BESIDE[p].how}, and {worlds}")


def _either_side(p: float) -> Null:
    """The null of a square: a density beside it, and networks on both sides of it."""
    below, above = (NOTEBOOK_SQUARES[p] + side * 2 * SQUARE_ALLOWED[p] for side in (-1, 1))
    worlds = f"half of the networks with {below:g} and half with {above:g}"
    return replace(BESIDE[p], how=f"{BESIDE[p].how}, and {worlds}")


CLAIMS = (
    PAPER.claim(
        "T7-gram",
        "Linear model: W^T W is the identity on the five most important features and 0 elsewhere, "
        "at every density (greatest difference of an entry)",
        at_most(0.1),
        printed="W^T W is the identity on the most important features, whatever the density",
    ),
    PAPER.claim(
        "T7-bias",
        "Linear model at p = 1: the bias is 0 for a represented feature and its mean, 1/2, for an "
        "ignored one (by what share of 1/2 it misses that, mean over seeds, of the feature that "
        "misses most)",
        at_most(0.05),
        printed="bias 0 for represented features, the expected value, p/2, for the others",
        explanation="It is the fifth feature, the least important that is represented: its bias is "
        "from -0.08 to 0.05, in eight of 32 networks further from 0 than 0.025. The fourth and "
        "the sixth miss by 0.01 and 0.02.",
    ),
    PAPER.claim(
        "T7-dense-relu",
        "Dense ReLU model: W^T W is that of the linear model "
        "(greatest difference of an entry, p = 1)",
        at_most(0.1),
        printed="with dense features the ReLU model looks like the linear one",
        null=Null("mismatched", "the ReLU model of sparser features"),
    ),
    *(
        JAX.claim(
            f"demonstrate-count-p{p:g}",
            f"p = {p:g}: {count} features have norm above 0.5 "
            "(by how many a seed's count misses it, mean)",
            at_most(ALLOWED[p]),
            WHY_ALLOWED.get(p, HALF),
            null=ELSEWHERE,
            printed=f"{count}",
            explanation={0.3: EIGHTS, 0.1: PAIRS, 0.01: SPREAD}.get(p, MORE if p < 0.01 else ""),
        )
        for p, count in COUNTS.items()
    ),
    JAX.claim(
        "demonstrate-digons-p0.03",
        "p = 0.03: networks of five digons (antipodal pairs) occur (share of seeds)",
        at_least(0.05),
        "one network is printed: what one in twenty is not would be no outcome of ours",
        kind="relation",
        null=ELSEWHERE,
        printed="10 features as 5 digons at density 0.03",
        explanation="The best network, and the best optimum known, have three digons, and six "
        "features in two dimensions; our best network with five digons has a loss 4.4 % above.",
    ),
    PAPER.claim(
        "demonstrate-less-important-first",
        "Superposition starts with the less important features: at p = 0.3, among the five most "
        "important, as many as there are dimensions, superposed ones stand later in order of "
        "importance than dedicated ones (difference of mean indices)",
        at_least(1),
        "one place of the five, of at most 2.5; the source has no number",
        kind="relation",
        printed="superposition starts with the less important features and moves to the most "
        "important",
        null=Null("permuted", "the five of each network are shuffled among themselves"),
    ),
    PAPER.claim(
        "demonstrate-negative-bias",
        "Most sparse features have negative biases (share of the represented features with a bias "
        "of -0.01 or less at p = 0.001, mean of the seeds)",
        at_least(0.5),
        "most of them; -0.01 is below 0, the bias of an untrained network, by more than noise",
        kind="relation",
        printed="sparser models have positive interference and negative biases; no number",
        null=DENSER,
    ),
    PAPER.claim(
        "demonstrate-positive-interference",
        "... and interfere positively (share of the represented features whose positive inner "
        "products with the others have squares that sum to 0.01 or more at p = 0.001, mean of the "
        "seeds)",
        at_least(0.5),
        "most of them; 0.01 is one inner product of 0.1, the noise that W^T W of the linear model "
        "is allowed",
        printed="sparser models have positive interference and negative biases; no number",
        null=DENSER,
    ),
    PAPER.claim(
        "demonstrate-rescaled",
        "80 features in 20 dimensions are a rescaled copy: represented features for each dimension "
        "(greatest difference over densities, mean of seeds)",
        at_most(0.3),
        "granularity of one feature in five dimensions is 0.2",
        kind="relation",
        printed="80 features in 20 dimensions look like a rescaled copy of 20 in 5",
        null=Null("mismatched", "the larger model at the next density, or at a later one"),
        explanation=(
            "Equal down to p = 0.03 within 0.2; sparser, the larger model represents up to "
            "0.5 more features a dimension, and only p = 0.001 decides. There a feature is on 770 "
            "times in 4,000 steps, and more begin with a norm above 0.5 in 20 dimensions than in "
            "5. A hypothesis, not tested by longer training."
        ),
    ),
    *(
        NOTEBOOK.claim(
            f"demonstrate-notebook-count-p{p:g}",
            f"n = 100, m = 20, p = {p:g}: {printed} features have norm above 0.5 (by how many a "
            "seed's count misses it, mean)",
            at_most(0.5),
            HALF,
            printed=printed,
            explanation=explanation,
            null=_one_off(p),
        )
        for p, (printed, explanation) in PRINTED.items()
    ),
    NOTEBOOK.claim(
        "demonstrate-notebook-count-p0.21",
        "n = 100, m = 20, p = 0.21: 37 features have norm above 0.5",
        near(NOTEBOOK_COUNTS[0.21], 1),
        printed="37",
        explanation=ABOVE_COUNT,
        null=BESIDE[0.21],
    ),
    *(
        NOTEBOOK.claim(
            f"demonstrate-notebook-frobenius-p{p:g}",
            f"n = 100, m = 20, p = {p:g}: the squared Frobenius norm of W is {square:g} (distance "
            "of a seed from it, mean)",
            at_most(SQUARE_ALLOWED[p]),
            "the last digit that is printed, alike in both runs" if p == 1 else None,
            printed=f"{square:.1f}",
            explanation=ABOVE_SQUARE if p == 0.21 else "",
            null=_either_side(p),
        )
        for p, square in NOTEBOOK_SQUARES.items()
    ),
    NOTEBOOK.claim(
        f"demonstrate-notebook-frobenius-p{APART:g}",
        f"n = 100, m = 20, p = {APART:g}: the squared Frobenius norm of W is 55 to 57 (distance of "
        "a seed from that range, mean)",
        at_most(1),
        "one beyond what the two runs print, for another rate, batch and number of steps",
        printed="55 to 57",
        null=BESIDE[APART],
    ),
    OURS.claim(
        "linear-bias-sparse",
        "Linear model, sparser features: the bias of an ignored feature is its mean, p/2 (by what "
        "share it misses it, mean over seeds and ignored features, greatest over densities)",
        at_most(0.05),
        "what the bias at p = 1 is allowed",
        n=8,
        null=START,
        explanation="At p = 0.001 biases lie on both sides of p/2, singly up to 41 % away and 0.8 "
        "% on average: noise of training.",
    ),
    OURS.claim(
        "demonstrate-optimum-below",
        "No trained network is below the exact optimum (least ratio of losses, all densities)",
        at_least(1 - 1e-6),
        "the optimum is started from the best networks",
        kind="identity",
        selection="lowest of all seeds",
        origin="theorem",
    ),
    OURS.claim(
        "demonstrate-tail",
        "The sloping tail of norms at p = 0.001 (eight features below norm 0.5) is under-training: "
        "the exact optimum has none (features with norm from 0.1 to 0.5)",
        at_most(1),
        "a hypothesis of the reference page, stated before the optimum was computed at this scale",
        kind="relation",
        selection="lowest of all starts",
        explanation=(
            "Tested: the best optimum known has five such features, with norms of 0.15 to 0.50, "
            "and two below 0.1. The best trained network has seven below 0.5 as well: the tail "
            "is the optimum's."
        ),
        null=Null("mismatched", "the best trained network in the place of the optimum"),
    ),
)
