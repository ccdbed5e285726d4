"""Published statements on the k-gons.

The names T9-... refer to result 9 of the toy-models table in docs/acceptance.md.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import BY_PROOF, Null
from circuitax.records.papers import Paper

OTHER = Null("false world", "another k-gon of the three in the place of each")
LEVELS = Null(
    "random",
    "each network's loss times a factor, so that it ends anywhere from the least loss of a k-gon "
    "to that of its start, in logarithms",
)
PAPER = ClaimSource(
    "Chen et al. 2023 (arXiv 2310.06301), table of k-gons",
    cites=(Paper.CHEN_2023,),
    selection="closed form",
    origin="published",
    link=papers.PHASES,
)
DIGITS = "last digit given"

# k: norm l*, bias b*, L at c = k.
TABLE = {4: (1.0, 0.0, 0.0), 5: (1.17046, -0.28230, 0.01583), 6: (1.32053, -0.61814, 0.04819)}
# (k, c, features left out that have a positive bias): L.
LEFT_OUT = {
    (4, 5, 0): 0.06667,
    (4, 5, 1): 0.05667,
    (4, 6, 0): 0.11111,
    (4, 6, 1): 0.10417,
    (5, 6, 0): 0.06874,
}

RESTING = "all networks that rest at all; each has its own start and data"
PLATEAUS = "plateaus of training by SGD lie at losses of k-gons, the higher ones first"


CLAIMS = (
    PAPER.claim(
        "T9-norm",
        "Norms l* of the 4-, 5- and 6-gon (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="1.0, 1.17046 and 1.32053",
        null=OTHER,
    ),
    PAPER.claim(
        "T9-bias",
        "Biases b* of the 4-, 5- and 6-gon (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="0, -0.28230 and -0.61814",
        null=OTHER,
    ),
    PAPER.claim(
        "T9-potential",
        "L of the k-gon of its own k features, k = 4, 5, 6 (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="0, 0.01583 and 0.04819",
        null=OTHER,
    ),
    PAPER.claim(
        "T9-dead",
        "L(4,5), L(4+,5), L(4,6), L(4+,6), L(5,6), with features left out (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="0.06667, 0.05667, 0.11111, 0.10417 and 0.06874",
        null=Null("false world", "another of the five in the place of each"),
    ),
    PAPER.claim(
        "T9-critical",
        "The k-gon of its own k features is a critical point (largest entry of the gradient)",
        at_most(1e-9),
        "rounding in float64",
        kind="identity",
        printed="the regular k-gons are critical points of the potential",
        null=Null("false world", "norm and bias of another k-gon of the five in the place of each"),
    ),
    PAPER.claim(
        "T9-curvatures",
        "Twice the local learning coefficient, 3k - 1, is the number of directions in which the "
        "loss curves up at the k-gon, k = 5 to 8; it curves down in none (greatest difference)",
        near(0, 0),
        "a count",
        printed="learning coefficients of 7, 8.5, 10 and 11.5 for k = 5, 6, 7 and 8",
        null=Null("false world", "another k-gon of the four in the place of each"),
    ),
    PAPER.claim(
        "T9-plateaus",
        "Training comes to rest at losses of k-gons only (share of networks of six features all of "
        "whose plateaus lie within half a percent of one; nearly all of these are where training "
        "ends)",
        at_least(0.8),
        "most; 16 networks at five times the rate were looked at beforehand; within 2 % a common "
        "factor of all losses passes in 2 % of draws",
        kind="relation",
        n=16,
        selection=RESTING,
        printed=PLATEAUS,
        null=LEVELS,
    ),
    PAPER.claim(
        "T9-higher-first",
        "Training rests on the way, at a higher loss first (share of networks of six features with "
        "a plateau at a k-gon of fewer vertices before their last)",
        at_least(0.5),
        "most",
        kind="relation",
        n=16,
        selection=RESTING,
        printed=PLATEAUS,
        null=LEVELS,
        explanation="From a start of small weights the first k-gon reached, a pentagon or a "
        "square, is kept for the 10,000 steps; two networks rest for 300 and 400 steps, less than "
        "the 500 asked, a little above their last loss. A published example starts at a 2-gon, has "
        "a finite set of samples, and trains longer: not tested.",
    ),
    ClaimSource("reference page, one-hot limit", origin="ours").claim(
        "T9-hexagon",
        "With six features on one-hot data the hexagon is the lowest of the k-gons (its k)",
        near(6, 0),
        "a count",
        kind="relation",
        selection="lowest potential, one dead feature with positive bias allowed",
        null=Null(BY_PROOF, "the potentials are computed from their formula"),
    ),
)
