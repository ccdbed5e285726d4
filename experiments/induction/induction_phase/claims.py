"""Claims on the phase change, fixed before the first run.

O1 to O15 number the observations that are taken from the induction-heads paper.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

MOST = "95 % interval of a proportion; 16 of 16 give a lower end of 0.81, 15 of 16 of 0.72"
NONE = "95 % interval of a proportion; 0 of 16 give an upper end of 0.19"
PILOT = "threshold from pilot runs with other keys, far from both groups"
CHANGE = (
    " (it jumps, i.e. in a sixth of training it falls faster than in an earlier one and than in a "
    "later one, by three eighths of what it ends with; and in a quarter by five eighths of what "
    "two layers end with, the printed step from 0.15 to 0.4)"
)
SIZE = (
    "below 0.15 nats before, about 0.4 after one narrow window; of real text, where these texts "
    "of 32 "
    "symbols repeat in full and context saves about ln 32 = 3.5, so that shares are compared"
)
OF_ONE = Null("mismatched", "the same of models of one layer, which the paper says lack it")
PAPER = ClaimSource(
    "induction-heads paper",
    cites=(Paper.INDUCTION,),
    kind="relation",
    n=16,
    selection="all seeds that stayed finite; each its own data",
    origin="published",
    link=papers.INDUCTION,
    null=OF_ONE,
)
OURS = replace(PAPER, origin="ours", link="")
OF_TWO = Null("mismatched", "the same of models of two layers, which the paper says have it")
AS_LARGE = Null(
    "false world",
    "curves of one layer, which do not jump, multiplied to what these end with, and curves that "
    "grow to this end with the fourth power of time",
)
OTHER_SEEDS = Null("mismatched", "the time of one seed against the change of another")
LABELS = Null("permuted", "of equal means, models are shuffled between the two groups")
ONE_TIME = Null(
    "mismatched",
    "the curve of one seed against the change of another, and that of each against all changes; "
    "and curves that grow evenly from the start, half way where their own are",
)
SIDES = Null("permuted", "the two sides of the difference are exchanged at random in each seed")

CLAIMS = (
    PAPER.claim(
        "phase-two-layers",
        "Share of two-layer models with a phase change in the in-context score" + CHANGE,
        at_least(0.75),
        MOST,
        section="in-context score over training (O1)",
        printed=SIZE,
        null=AS_LARGE,
    ),
    PAPER.claim(
        "phase-share",
        "Two-layer models make most of their final in-context score within a quarter of training, "
        "and within a fifth: the lesser of both shares of it",
        at_least(0.75),
        "as printed, of a window of 2.5 to 5 of 10 billion tokens; the fifth is that of 1 to 3, to "
        "which the paper puts small models elsewhere; added on data already accepted",
        section="in-context score over training (O1)",
        printed="more than 75 % of the final score forms in the window of 2.5 to 5 billion tokens; "
        + SIZE,
    ),
    PAPER.claim(
        "phase-one-layer",
        "Share of one-layer models whose in-context score jumps: in a sixth, a tenth or a "
        "twentieth of training it falls faster than in an earlier one, by three eighths of what it "
        "ends with",
        at_most(0.25),
        NONE + "; narrower windows than for two layers, since what changes in the first is not "
        "seen",
        section="in-context score over training (O1)",
        explanation="the largest rise in speed is 0.370 of what the score ends with, where 0.375 "
        "makes a jump",
        printed="one layer never jumps",
        null=Null(
            "false world",
            "their scores at the end, all gained in the middle of each model's steepest sixth, and "
            "curves of two layers in one layer's time",
        ),
    ),
    PAPER.claim(
        "phase-smeared",
        "Share of one-layer models with smeared keys with a phase change, by the same rule",
        at_least(0.75),
        MOST,
        section="smeared keys (O7)",
        printed="with smeared keys one layer has the change as well; no number",
        null=AS_LARGE,
    ),
    PAPER.claim(
        "phase-smeared-earlier",
        "Half of the in-context gain of two-layer models comes earlier with smeared keys "
        "than without: difference in steps",
        at_most(0),
        "a relation",
        section="smeared keys (O7)",
        explanation="no difference is seen: perhaps, with 32 symbols and two heads a layer, a "
        "previous-token head forms as fast as keys learn to be smeared",
        printed="with smeared keys two layers have it earlier; no number",
        null=LABELS,
    ),
    PAPER.claim(
        "prefix-two-layers",
        "Share of two-layer models with a prefix-matching head (score over 0.4)",
        at_least(0.75),
        MOST,
        section="prefix matching over training (O3)",
        printed="prefix scores of some heads shoot up in the phase change; no number",
        null=Null("untrained", "the same heads before training"),
    ),
    PAPER.claim(
        "prefix-one-layer",
        "Share of one-layer models with a prefix-matching head",
        at_most(0.25),
        NONE,
        section="prefix matching over training (O3)",
        printed="no such head in one layer",
        null=OF_TWO,
    ),
    PAPER.claim(
        "icl-depth",
        "In-context score at the end that two-layer models have and one-layer models lack, over "
        "that of two layers",
        at_least(5 / 8),
        "the printed step, from 0.15 to 0.4, as a share of what it ends with",
        section="in-context score over training (O1)",
        printed="about 0.4 nats from two layers up; one layer never jumps",
        null=LABELS,
    ),
    PAPER.claim(
        "bump-two-layers",
        "Share of two-layer models whose loss has a bump in the phase change and no other (a sixth "
        "of training in which it falls 0.3 nats more than in an earlier and in a later one begins "
        "within half a sixth of that in which the in-context score falls most; before that one, "
        "and after it, no 20th, 10th or three 20ths fall 0.3 nats more than an earlier one there)",
        at_least(0.75),
        MOST,
        section="loss curves (O4)",
        printed="a bump in the window, the only stretch that is not convex; no number",
        null=Null(
            "false world",
            "one layer; and losses that fall to the same end with the fourth power of time, in two "
            "bumps, or as they do, moved against the in-context score",
        ),
    ),
    PAPER.claim(
        "bump-one-layer",
        "Share of one-layer models whose loss curve has a non-convex stretch of its own size (in a "
        "sixth, a tenth or a twentieth of training it falls faster than in an earlier one, by "
        "three eighths of its whole fall)",
        at_most(0.25),
        NONE + "; 0.3 nats, as for two layers, would be three fifths of the whole fall",
        section="loss curves (O4)",
        printed="no bump with one layer",
        null=Null(
            "false world",
            "loss curves of two layers, in their own time and in one layer's, and those of one "
            "layer with two fifths of the fall at once at a tenth, a fifth or half of training",
        ),
    ),
    PAPER.claim(
        "together-prefix",
        "Share of two-layer models in which prefix matching makes at least half of its rise within "
        "the phase change (the sixth of training where the in-context score falls most), and is "
        "half way in the middle half of it",
        at_least(0.75),
        MOST,
        section="simultaneity (argument 1)",
        printed="both in one window, of 1 to 3 billion tokens in small models",
        null=ONE_TIME,
    ),
    replace(
        OURS, source="Ours, beside simultaneity (argument 1) of the induction-heads paper"
    ).claim(
        "together-previous",
        "Share of two-layer models in which half of the previous-token score of the first layer is "
        "reached within the phase change, all of that sixth",
        at_least(0.75),
        MOST,
        null=OTHER_SEEDS,
    ),
    OURS.claim(
        "previous-dissolves",
        "The previous-token head of two layers looks back where a token is new to its text, and "
        "less where it is not, since there nothing reads it: share of attention at the end of "
        "training, new tokens minus repeated ones",
        at_least(0.1),
        "fixed before the two were looked at apart; together they are at 0.55",
        null=SIDES,
    ),
    replace(
        OURS, source="Ours, beside the derivative of loss by log token index (O2)", cites=()
    ).claim(
        "index-two-layers",
        "By the index at which every text repeats, the loss of two-layer models falls more steeply "
        "along the text after the change than before: d loss / d ln(token index) at the end of "
        "the change minus at its beginning, nats",
        at_most(-2),
        PILOT,
        explanation="the published sentence, that the loss falls on where it had stopped, needs "
        "texts on which something is left to gain there; here all is known from index 17",
    ),
    PAPER.claim(
        "index-one-layer",
        "One-layer models have no such change: that of the same slope through the sixth of "
        "training in which it falls most, nats",
        at_least(-0.4),
        "a tenth of that of two layers, 4.0 nats",
        explanation="the slope falls slowly, by 0.88 to the end, as one layer learns as well which "
        "symbols a text has; in the sixth in which the in-context score falls most it is -0.26",
        section="derivative of loss by log token index (O2)",
        printed="one layer displays none of the abrupt changes, and not much in-context learning "
        "ever forms in it; no number",
        null=OF_TWO,
    ),
    PAPER.claim(
        "ablation-induction",
        "Share of the in-context score of two-layer models that is lost without their "
        "prefix-matching heads, which are all heads of the second layer, patterns held",
        at_least(0.9),
        "nearly all; the limit is from pilot runs with other keys. In all seeds both heads of the "
        "second layer match, so that heads are not told from their layer",
        section="ablations (O8)",
        printed="induction heads do almost all in-context learning of small attention-only "
        "models; no number",
        null=Null("mismatched", "as many other heads, those of the first layer"),
    ),
    PAPER.claim(
        "pairs-phase",
        "For any pair of positions, the early one before any repeat and the late one after the "
        "longest period, models that have the change end with about the same in-context score: "
        "least over greatest of the means of two layers, one layer with smeared keys and two with "
        "them, at the pair where they differ most",
        at_least(0.75),
        "within a quarter, as for models of all sizes (`depth-score-alike`)",
        n=48,
        section="in-context score of other pairs of positions (O14)",
        explanation="the first token decides, which two layers guess worse than by chance, with a "
        "loss of 4.8 nats, and one layer with smeared keys with 3.9; of all other early tokens it "
        "is 0.9 or more",
        printed="whatever pair defines the score, it varies only slightly between models; no "
        "number",
        null=Null("mismatched", "one layer, which the paper says lacks the change, for two layers"),
    ),
    PAPER.claim(
        "pivot-two-layers",
        "In the plane of largest variance of single tokens' losses, training of two layers turns "
        "in the phase change: angle between its way to the change and its way on from it, degrees",
        at_least(45),
        "half a right angle: the paper shows a pivot and gives no number",
        section="principal components of per-token losses (O5)",
        explanation="one layer turns by 45 degrees in the same steps, and about stretches from "
        "step 400 on both turn by 60 and more: four fifths of the variance lie on one component, "
        "so that the way that is left after it may be noise",
        printed="trajectories pivot inside the window; no number",
        null=Null("mismatched", "models of one layer in the same steps, said not to pivot"),
    ),
    PAPER.claim(
        "pivot-one-layer",
        "That of one layer does not: the same angle in the steps in which two layers of the same "
        "texts change",
        at_most(45),
        "half a right angle; the paper marks one interval in all models. At its own steepest "
        "sixth, early in training, one layer turns by 13 degrees",
        section="principal components of per-token losses (O5)",
        explanation="one layer moves little by then, and its direction may be noise",
        printed="the trajectory of one layer does not pivot; no number",
        null=OF_TWO,
    ),
    replace(OURS, source="Ours, beside the trace of the QK circuit (O10)", cites=()).claim(
        "trace-keys",
        "The normalised trace of the QK circuit through K-composition, its eigenvalue score, "
        "becomes positive in the change: that of previous-token and prefix-matching head, at its "
        "end minus at its beginning",
        at_least(0.3),
        "the score of the corner is 0.7, random heads have 0",
        explanation="it is 0.9 before the in-context score begins to fall steeply: perhaps the "
        "circuit's direction forms first, and its size then makes attention sharp",
        null=Null("mismatched", "through the first-layer head that looks back least"),
    ),
    replace(OURS, source="Ours, beside the trace of the QK circuit (O10)", cites=()).claim(
        "trace-values",
        "That of the OV circuit of the prefix-matching head rises with it: eigenvalue score at the "
        "end of the change minus at its beginning",
        at_least(0),
        "a relation: heads may copy before they match",
        null=SIDES,
    ),
    PAPER.claim(
        "ablation-others",
        "The in-context score rises without all other heads, patterns held: share of it that is "
        "lost",
        at_most(0),
        "a relation; the paper: ablating most other heads raises the score",
        explanation="it rises by 0.46 nats, of which late tokens, with a loss of 0.08, can give "
        "0.08 at most: tokens before any repeat get worse, so that these heads do help there",
        section="ablations (O8)",
        printed="removing most other heads raises the score; no number",
        null=SIDES,
    ),
)
