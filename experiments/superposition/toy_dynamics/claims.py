"""Published statements on learning dynamics in toy models.

The claim named "fine", and the count of falls, were written after a first run with seed 0, in
which straight pieces within 2 % of the range of log loss had merged the plateau with the first
opening. Planes and kinks at openings are asked otherwise since 64 seeds on root key 2 were read;
the configured run has another key.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

START = Null("untrained", "as many networks at their start")
PARALLEL = Null(
    "false world",
    "one of the six digons of each seed is a parallel pair instead, with the loss that this costs",
)
DRIFT = Null(
    "false world",
    "every D_i drifts evenly from its first value to its last, until its seed's last crossing",
)
OTHER_OPENING = Null("mismatched", "each seed has the opening of the next, or of a later one")
OTHER_SEED = Null("mismatched", "each seed has the kinks of the next, or of a later one")
SMOOTH = Null(
    "false world",
    "one exponential fall of each seed's loss, with its ends, halfway when its own loss is",
)
LEVELS = ClaimSource(
    "Toy Models of Superposition, superposition and learning dynamics, discrete energy level jumps",
    cites=(Paper.TOY_MODELS,),
    kind="relation",
    n=16,
    selection="all seeds",
    origin="published",
    link=papers.TOY_MODELS,
)
REGIMES = replace(
    LEVELS,
    source="Toy Models of Superposition, superposition and learning dynamics, "
    "learning as geometric transformations",
)
PLANE = replace(
    REGIMES,
    printed="an early linear, PCA-like phase separates the two sets; no share",
    null=Null(
        "random",
        "features are drawn anew into the two sets, in each seed; and, as often, one set of each "
        "seed is turned to a random direction, the same at all times",
    ),
)
KINKS = replace(REGIMES, printed="kinks in the loss mark the regimes; no share", null=OTHER_SEED)
OURS = replace(LEVELS, source="our measure of levels", cites=(), origin="ours", link="")
NEARER = "a relation: networks open at about the same time, so that kinks of others are near too"
MOST = "most seeds: the paper shows one network and says that others differ"

CLAIMS = (
    LEVELS.claim(
        "dynamics-digons",
        "Equal features end as digons or without a direction (share of seeds in which every D_i is "
        "within 0.05 of 0 or 1/2, and the loss at most 1.03 of the optimum of six digons and eight "
        "features without a direction)",
        at_least(0.5),
        "most seeds: the paper shows one network and says that others differ; one parallel pair in "
        "the place of a digon, which has D_i = 1/2 too, costs 5.4 % of the loss",
        printed="the one model shown ends with every feature in a digon; no share",
        null=PARALLEL,
    ),
    LEVELS.claim(
        "dynamics-levels",
        "Between changes of level features are on a level (share of features and measurements with "
        "D_i within 0.1 of 0 or 1/2, from a tenth of training to its seed's last crossing of 1/4)",
        at_least(0.9),
        "jumps and noise",
        printed="dimensionalities sit on discrete levels between jumps; no share",
        selection="all seeds with a crossing after a tenth of training",
        null=DRIFT,
        explanation="Features drift from one to the other. In the second half of training, which "
        "has no crossing, 99.8 % are on a level.",
    ),
    OURS.claim(
        "dynamics-levels-middle",
        "Features are on a level from a tenth to half of training too "
        "(share of features and steps with D_i within 0.1 of 0 or 1/2)",
        at_least(0.5),
        "a uniform D_i between 0 and 0.6 would be there half of the time",
        null=START,
        explanation="Where D_i drifts towards a level instead of jumping between two, it is "
        "between levels for as long as the drift lasts.",
    ),
    LEVELS.claim(
        "dynamics-sudden",
        "A feature goes from one level to the other in a jump (share of passages between D_i "
        "within 0.1 of 0 and of 1/2, two measurements on each, that take 5 % of training at most)",
        at_least(0.5),
        "half of them in a twentieth of training; the paper gives no width",
        printed="features swap dimensionality in jumps; no width",
        selection="all seeds with a passage",
        null=Null("false world", "every D_i drifts evenly from its first value to its last"),
        explanation="Features drift: of 46 passages, all begun in the first 900 of 6,000 steps, "
        "the shortest takes 600 and the median 1,250; 39 go from 1/2 to 0.",
    ),
    LEVELS.claim(
        "dynamics-drops",
        "The loss falls when features change level (correlation over time, after the first tenth, "
        "of the change of all D_i that are not on the same level before and after with the fall of "
        "log loss, each less its mean over seeds at that time, mean of seeds)",
        at_least(0.5),
        "a strong correlation; the paper shows it by eye",
        printed="each jump comes with a drop of the loss, tiny first, larger later",
        null=Null("false world", "only the motion of features that stay on a level counts"),
        explanation="It is motion inside levels that goes with the falls: of features that stay on "
        "one the correlation is 0.65, and theirs is 74 % of all motion after the first tenth. Of "
        "927 crossings of 1/4 the first tenth has 700, in six measurements. Over 300 and 500 steps "
        "instead of 100 the correlation is 0.29 and 0.42.",
    ),
    REGIMES.claim(
        "dynamics-octahedron",
        "Two sets of three correlated features in three dimensions end as an octahedron, antipodes "
        "in different sets (share of seeds)",
        at_least(0.5),
        MOST,
        printed="the end state is an octahedron, antipodal pairs across the two sets",
        null=START,
        explanation="Sets turn against each other last, and slowly because the loss hardly "
        "depends on it: 16, 25, 33 and 43 of 96 networks are there at 70, 80, 90 and 100 % of "
        "training, so that its length decides, not the number of seeds.",
    ),
    replace(REGIMES, origin="ours", link="").claim(
        "dynamics-across",
        "Octahedra have their antipodes in different sets (share of the networks that end as an "
        "octahedron with any antipodes)",
        at_least(0.7),
        "half of the way from chance, which has 6 of the 15 pairings of six features, to all",
        selection="all seeds that end as an octahedron",
        null=Null("permuted", "features are drawn anew into the two sets, in each seed"),
    ),
    REGIMES.claim(
        "dynamics-regimes",
        "The sets are first one direction each, then open, then form the octahedron "
        "(share of seeds in this order)",
        at_least(0.5),
        MOST,
        printed="sets separate, open into triangles, which rotate into an antiprism, at last an "
        "octahedron",
        null=Null("permuted", "the times of the weights are shuffled within each seed"),
        explanation="The octahedron, which comes last, decides: 16, 25, 33 and 45 of 96 networks "
        "have had it by 70, 80, 90 and 100 % of training, all of them in this order.",
    ),
    KINKS.claim(
        "dynamics-kinks",
        "The loss has three regimes or more, found as straight pieces of its logarithm "
        "(share of seeds with two kinks at least)",
        at_least(0.5),
        MOST,
        null=SMOOTH,
    ),
    PLANE.claim(
        "dynamics-plane",
        "A linear-like phase separates the sets: two separated sets in a plane, at 75 to 105 "
        "degrees, for a twentieth of training without a break (share of seeds)",
        at_least(0.5),
        MOST,
    ),
    replace(OURS, source="our count of regimes").claim(
        "dynamics-falls",
        "The loss falls in three steps: separation, opening, octahedron (share of seeds with three "
        "pieces or more that are steeper than both neighbours, within 0.5 % of the range)",
        at_least(0.5),
        MOST,
        null=SMOOTH,
        explanation="In some networks sets open and turn at once, and the two later falls are one.",
    ),
    replace(KINKS, n=8).claim(
        "dynamics-kink-opening",
        "A kink of the loss marks where sets begin to open (distance to the nearest kink of its "
        "own loss over that to the nearest kinks of other networks, geometric mean of seeds)",
        at_most(1),
        NEARER,
        explanation="A few coincidences make the mean: the median is 1.24, and in 31 % of seeds "
        "their own kink is nearer",
    ),
    replace(KINKS, n=8, null=OTHER_OPENING).claim(
        "dynamics-kink-opening-fine",
        "A kink of the loss, of pieces within 0.5 % of the range, marks where sets begin to open "
        "(distance to the nearest kink of its own loss over that to those of other networks, as "
        "they are or aligned where log loss has half fallen: the greater geometric mean of seeds)",
        at_most(1),
        "a relation: networks open at about the same time, and at about the same time after their "
        "loss has half fallen, so that kinks of others are near too",
    ),
)
