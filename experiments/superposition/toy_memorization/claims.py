"""Published statements on memorisation, features and double descent in toy models.

The paper has 10,000 features of density 0.001. Quick scale has fewer of higher density, so that
numbers of training points are not comparable; shapes are, and so is T times density.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, between, near
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

PAPER = ClaimSource(
    "Henighan et al. 2023, Superposition, Memorization, and Double Descent",
    cites=(Paper.HENIGHAN_2023,),
    kind="relation",
    n=8,
    selection="lowest training loss of the restarts, for each of the datasets",
    origin="published",
    link=papers.MEMORIZATION,
)
DIRECTIONS = Null("random", "as many hidden vectors in random directions, in as many sets")
EQUAL = Null(
    "random", "as many hidden vectors of equal length in random directions, in as many sets"
)
UNEVEN = Null(
    "random",
    "as many hidden vectors of equal length in random directions, in as many sets; and, as often, "
    "those of the sets with lengths drawn from a tenth to 1",
)
START = Null(
    "untrained",
    "W as normal as at the start, in as many sets; and, as often, the trained one with norms of "
    "represented features drawn from 0.52 of the largest to all of it",
)
TEN_SHARE = Null(
    "false world",
    "the weights of all but the five features and the ten largest others are set to 0",
)
FEW_POINTS = Null("mismatched", "the sizes T of 8 and fewer in the place of the largest")
MORE = Null(
    "false world",
    "six, seven or eight features in the place of the five, as a regular polygon at the largest T; "
    "three to eight at T = 8, and no others there; the sizes T shuffled within each set; and all "
    "features with their norms in random directions",
)
ANYWHERE = Null("random", "an onset anywhere from the bump to the largest T, even in log T")
NO_BUMP = Null(
    "false world",
    "the test losses of each set in falling or in rising order; those between both ends moved so "
    "that the peak lies at another T of either regime; or those with decay 1.0",
)
NO_PEAK = Null(
    "false world",
    "the norms of each set in falling, and in rising, order; and those between both ends moved so "
    "that the peak lies at another T of either regime",
)
POLYGON = replace(
    PAPER,
    printed="few training points become a regular T-gon of hidden vectors",
    null=UNEVEN,
)
THEORY = replace(
    PAPER,
    source="ours, exact optimum of disjoint samples",
    cites=(),
    kind="identity",
    n=1,
    selection="closed form",
    origin="theorem",
    link="",
)
JERMYN = replace(
    PAPER, source="Henighan et al. 2023, comment and replication by Jermyn", kind="number"
)
OURS = replace(PAPER, source="ours, exact T-gon", cites=(), kind="number", origin="ours", link="")
MOST = "most training sets: the paper shows single ones"
# Test loss of the best constant output, the mean sample: 1 - E[|x|_1]^2 / n for samples x of unit
# norm, with n = 100 features of density 0.05.
BEST_CONSTANT = 0.9629

NEAR_HALF = "About half of the sets do, too near one half for 48 sets to tell."

CLAIMS = (
    THEORY.claim(
        "memorization-exact",
        "A regular T-gon of norm 1/(sqrt(2) sin(pi/T)) memorises T disjoint samples without error "
        "(greatest loss)",
        at_most(1e-20),
        "rounding of float64",
    ),
    THEORY.claim(
        "memorization-least",
        "A T-gon that is shorter by a hundredth has an error (least loss)",
        at_least(1e-7),
        "of second order in the hundredth, for T from 3 to 32",
    ),
    POLYGON.claim(
        "memorization-tgon-5",
        "Five training points become a regular pentagon of hidden vectors (share of sets with all "
        "gaps within a quarter of 72 degrees, and all lengths of their mean)",
        at_least(0.5),
        MOST,
    ),
    POLYGON.claim(
        "memorization-tgon-8",
        "Eight training points become a regular octagon of hidden vectors (share of sets with all "
        "gaps within a quarter of 45 degrees, and all lengths of their mean)",
        at_least(0.5),
        MOST,
        explanation=NEAR_HALF,
    ),
    PAPER.claim(
        "memorization-sample-dimension",
        "Few samples share the dimensions: D_X = m/T of each (by what share the D_X of a sample "
        "misses it, mean of the samples of a set and of T = 5 and 8)",
        between(0, 0.05),
        "a regular T-gon has none; the mean of a set misses by none for every tight frame too, "
        "however unequal its samples",
        kind="number",
        printed="D_X = m/T",
        null=EQUAL,
        explanation="The mean D_X of a set misses m/T by 0.3 %, and those of its samples lie on "
        "both sides.",
    ),
    PAPER.claim(
        "memorization-no-features",
        "Few samples leave features without the dimensions that many samples give five of them "
        "(the least rise, from T = 8 to the largest T, of the fifth largest D_f above the sixth, "
        "of the mean D_f weighted by itself, and of a quarter of the five-fold order of angles)",
        at_least(0.1),
        "a quarter of a pentagon's 2/5; with a sixth feature like the five the first has none, "
        "from a polygon of few features the second, and in directions at random the third",
        printed="with few points the features are in disorder, with many five form a pentagon; no "
        "number",
        null=MORE,
    ),
    PAPER.claim(
        "memorization-pentagon",
        "Many samples make five features a pentagon (share of sets with exactly five norms above "
        "half of the largest, all five within a quarter of their mean, and all gaps of 72 degrees, "
        "at the largest T)",
        at_least(0.5),
        MOST,
        printed="with many points five features form a pentagon",
        null=START,
        explanation="Some sets keep a sixth feature or uneven gaps: with 450 points of density "
        "0.05 features are still not equally frequent, and larger sets may be more regular.",
    ),
    PAPER.claim(
        "memorization-feature-dimension",
        "The D_f of the five features are below 2/5, because many others share their dimensions "
        "(mean of the five at the largest T, of the sets that represent five, with the ten largest "
        "others of each set put to 0)",
        between(0.3, 0.3875),
        "clearly features: from 0.3 on it is above 0.2 with the ten too; and below 2/5 by half of "
        "the way to 3/8: five that share with no other feature have 2/5 at most, by algebra",
        printed="below 2/5, since the other 9,995 features add to the denominator",
        null=TEN_SHARE,
        explanation="With all others it is 0.346. With twenty put to 0 it is 0.393, so that it is "
        "many that share, and not nearly all; ten was set after the look.",
    ),
    PAPER.claim(
        "memorization-sample-share",
        "Many samples have next to no dimension each (mean D_X at the largest T)",
        at_most(0.05),
        "both are small between the regimes, and D_X at large T",
        printed="beyond few points the dimensions of a sample are small; no number",
        null=DIRECTIONS,
    ),
    PAPER.claim(
        "memorization-bump",
        "The test loss bumps: it is higher between the regimes than in both of them (at the T "
        "from 9 to 149 at which the mean of the other half of the sets is highest, less the "
        "highest at any T outside)",
        at_least(0),
        "a sign; half of the accepted run's sets have a regular T-gon at T = 8, and 150 is the "
        "first T at which one has a pentagon",
        printed="the test loss bumps between the regimes, where it is about 1.01; features "
        "generalise from about 5,000 points",
        null=NO_BUMP,
    ),
    PAPER.claim(
        "memorization-bump-height",
        "Where the test loss bumps it is about 1.01 (test loss at the inner T at which the mean of "
        "the other half of the sets is highest)",
        near(1.01, 0.005),
        "the last digit; it is the hundredth above 1 that is the bump",
        kind="number",
        printed="about 1.01; a replication by others has up to 5,000, and no reason is known",
        null=Null("printed number", "a model that puts out nothing has 1", answer=1.0),
        explanation="Five of our 100 features are on at a time, ten of 10,000 in the paper: a new "
        "sample has features in common with those memorised, and the output is theirs. Not tested "
        "with as many features.",
    ),
    PAPER.claim(
        "memorization-generalises",
        "With many samples the model is better than any constant output, which a bias alone can "
        "give (test loss at the largest T)",
        at_most(BEST_CONSTANT),
        "the best constant output has 1 - E[|x|_1]^2 / 100, with 1.925 for the mean sum of a "
        "sample of unit norm",
        printed="the model generalises from about 5,000 points on, which is T p = 5; where it "
        "does is judged by the onset",
        null=FEW_POINTS,
    ),
    JERMYN.claim(
        "memorization-onset",
        "Generalisation begins where T p is about 10 (T p from which on the mean test loss keeps a "
        "quarter of what it has gained on 1 at the largest T, between sizes along log T)",
        between(5, 20),
        "about: a factor of two, a size or two to each side",
        printed="about 10, independent of weight decay",
        null=ANYWHERE,
        explanation="Of onsets anywhere after the bump most are allowed, and one density cannot "
        "tell T p from T.",
    ),
    JERMYN.claim(
        "memorization-onset-decay",
        "It begins there independently of weight decay (that T with weight decay 1.0 over the one "
        "with 0.01)",
        between(0.5, 2),
        "the same factor of two, for decays that differ by a hundred",
        printed="about 10, independent of weight decay",
        null=Null(
            "printed number", "an onset that goes as the inverse root of the decay", answer=0.1
        ),
        explanation="Where half of the gain is kept the ratio is 0.57, and a tenth 0.19; by a "
        "quarter and by half it begins earlier with decay 1.0 in all 48 sets.",
    ),
    PAPER.claim(
        "memorization-norm-peak",
        "Norms of weights peak between few and many points (norm of W at the T from 9 to 149 at "
        "which the mean of the other half of the sets is largest, over the largest at any T "
        "outside; or that of b where it is smaller)",
        at_least(2),
        "the paper's peak is well above its plateau; T as in `memorization-bump`",
        printed="norms of W and b peak near T = 30, above a plateau near 2.2; T itself cannot be "
        "compared, since our features are fewer and more often on",
        null=NO_PEAK,
        explanation="From T = 100 on, where no set has a pentagon yet, it would be 1.63.",
    ),
    PAPER.claim(
        "memorization-norm-plateau",
        "With many samples the norm of W is about sqrt(5), of five features of norm 1 (at the "
        "largest T)",
        near(5**0.5, 0.2),
        "near: a tenth; untrained weights have 1.98",
        kind="number",
        printed="near sqrt(5) = 2.2",
        null=Null("printed number", "untrained weights", answer=1.98),
        explanation="Norms of the pentagon's optimum are 1.17 each, which makes 2.6 of five.",
    ),
    PAPER.claim(
        "memorization-decay",
        "Weight decay 1.0 removes the bump, here at m = 2 (highest mean test loss with it less the "
        "one with 0.01, over what the latter has above 1)",
        at_most(-0.9),
        "removes: nine tenths of it at least, set after the look",
        section="appendix, m = 4",
        printed="at m = 4 weight decay 1.0 removes the bump",
        null=Null(
            "false world",
            "the two decays are exchanged in half of the sets, at random; and, as often, decay 1.0 "
            "leaves a tenth of the bump, in sets drawn anew",
        ),
    ),
    OURS.claim(
        "memorization-least-norm",
        "Trained octagons have the least norm that memorises (mean norm of hidden vectors over it, "
        "T = 8)",
        near(1, 0.15),
        "supports overlap a little, and decay shortens",
        null=Null(
            "printed number",
            "untrained weights: samples are as short as a start of 1.98 makes them",
            answer=0.11,
        ),
    ),
)
