"""Claims on induction in several sizes, fixed before the first run.

The claims on five and six layers, on MLPs, and on the share of three layers were fixed before the
first run of evening scale. O1, O6 to O15 and F15 are rows of docs/acceptance.md. n counts seeds;
each size has as many.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

MOST = (
    "as printed, of a window of 2.5 to 5 of 10 billion tokens; in one of 1 to 3, to which the "
    "paper puts small models elsewhere, it is {}"
)
# A score is level that falls by less, in nats, in the last part of training.
LEVEL, LAST_PART = 0.1, 1 / 10
WINDOW = "more than 75 % of the final score forms in the window of 2.5 to 5 billion tokens"
SHARES = "; real text, where these texts repeat in full, so that shares are compared"
RANK = "the paper shows scatters that correlate well and gives no number"
PAPER = ClaimSource(
    "induction-heads paper",
    cites=(Paper.INDUCTION,),
    kind="relation",
    n=6,
    selection="all seeds that stayed finite; each its own data",
    origin="published",
    link=papers.INDUCTION,
)
DEEP = replace(PAPER, selection="all finite seeds of three and of four layers", n=12)
FRAMEWORK = replace(
    PAPER,
    source="framework paper",
    cites=(Paper.FRAMEWORK,),
    selection="finite seeds of three and four layers with heads of both kinds",
    n=4,
    link=papers.FRAMEWORK,
)
OURS = replace(
    PAPER,
    source="Ours, beside before-and-after attribution (O10)",
    cites=(),
    selection="finite seeds of three and four layers with heads of both kinds",
    n=4,
    origin="ours",
    link="",
)
FORMED = replace(DEEP, selection="finite seeds of three and four layers with a matching head")
DEEPER = replace(PAPER, selection="all finite seeds of five and of six layers")
MLPS = replace(PAPER, selection="all finite seeds of two layers with MLPs", n=8)
TWO = replace(PAPER, selection="all finite seeds of two layers, second width")
ORDER = replace(
    PAPER,
    source="induction-heads paper, derivative of loss by log tokens inverts its order (O15)",
    why="a sign",
    n=8,
    selection="finite seeds of the narrowest and of the widest model of two layers",
)

SHUFFLED = Null("permuted", "the scores that name heads are shuffled among those of each model")
WITHIN = Null("permuted", "prefix scores and eigenvalues are shuffled within each layer")
BESIDE = Null(
    "mismatched",
    "models through the change of another, drawn for each; where they come nearer to holding, the "
    "sixths before the change and behind it, or models of one layer, with and without MLPs, "
    "through their own change, as they are and multiplied to all that two layers change by",
)
ALONE = Null("mismatched", "the same of models of one layer, which the paper says lack it")
AS_LARGE = Null(
    "mismatched", "curves of one layer, which do not jump, multiplied to what two layers end with"
)
IN_PLACE = Null(
    "mismatched", "models of one layer, or those without a head, in the place of each size in turn"
)
CORNERS = Null(
    "permuted",
    "prefix scores and eigenvalues are shuffled within each layer, or matching heads get the OV or "
    "the QK score of heads that match nothing, or all others are in the corner; of each four the "
    "draw nearest to holding",
)
LAYER_BEFORE = (
    "In five of 14 seeds a head of the layer before has 0.4 as well: by the earliest, 9 of 14"
)
EARLIER = "By the earliest layer with a head of 0.4 it is 10 of 14, which would be undecided"
STILL_MOVING = (
    "nine of 16 models have a head when training ends, eight of them in the last two layers, and "
    "the in-context score of none is level by then."
)

CLAIMS = (
    *(
        PAPER.claim(
            f"depth-last-{n_layers}",
            f"In {word} layers of attention the induction head forms in the last: share of seeds "
            "whose best prefix-matching head lies there",
            at_least(0.5),
            "more often than not",
            section="where heads form, attention-only models (O11)",
            printed="in the last layer of attention-only models; no share",
            selection="finite seeds with a head of score 0.4 or more",
            n=4,
            explanation={4: LAYER_BEFORE, 5: EARLIER, 6: STILL_MOVING}.get(n_layers, ""),
            null=Null("random", "the head forms in either of the last two layers alike"),
        )
        for n_layers, word in ((3, "three"), (4, "four"), (5, "five"), (6, "six"))
    ),
    DEEP.claim(
        "depth-change",
        "Models of three and four layers have the phase change: share of seeds whose in-context "
        "score jumps, i.e. falls faster in a sixth of training than in an earlier one and than in "
        "a later one, by three eighths of what it ends with, and falls in a quarter by five "
        "eighths of what two layers end with, the printed step from 0.15 to 0.4",
        at_least(0.75),
        "as for two layers",
        explanation="15 of 16 seeds of three layers do, and 10 of 16 of four, whose scores fall by "
        "2.61 nats in the median, where 2.34 are asked; five of the seven that do not are not "
        "level when training ends, and of those that are 25 of 27 do",
        section="in-context score over training (O1)",
        printed="below 0.15 nats before, about 0.4 after, from two layers up" + SHARES,
        null=AS_LARGE,
    ),
    DEEPER.claim(
        "depth-change-deeper",
        "Models of five and six layers have it too: share of seeds, by the same rule, of those "
        "whose score is level when training ends",
        at_least(0.75),
        "as for two layers",
        selection="finite seeds of five and of six layers whose score falls by less than "
        f"{LEVEL} nats in the last tenth of training",
        section="in-context score over training (O1)",
        printed="below 0.15 nats before, about 0.4 after, from two layers up" + SHARES,
        n=16,
        null=AS_LARGE,
    ),
    PAPER.claim(
        "depth-share-3",
        "Three-layer models make most of their final in-context score within one quarter of "
        "training: share of it",
        at_least(0.75),
        MOST.format("0.714, and fails"),
        section="in-context score over training (O1)",
        printed=WINDOW + SHARES,
        selection="all finite seeds of three layers",
        n=8,
        null=ALONE,
    ),
    MLPS.claim(
        "depth-mlp-change",
        "Models with MLPs have the phase change: share of seeds of two layers, by the rule of "
        "models without",
        at_least(0.75),
        "as for two layers",
        section="in-context score over training, models with MLPs (O1)",
        printed="the change is there in small models with MLPs; no share",
        null=AS_LARGE,
    ),
    MLPS.claim(
        "depth-mlp-share",
        "... and make most of their final in-context score within one quarter of training: share "
        "of it",
        at_least(0.75),
        MOST.format("0.776, and holds too"),
        section="in-context score over training, models with MLPs (O1)",
        printed=WINDOW + SHARES,
        null=ALONE,
    ),
    MLPS.claim(
        "depth-mlp-matching",
        "They have a prefix-matching head at the end: share of seeds of two layers with a score of "
        "0.4 or more",
        at_least(0.75),
        "as for two layers",
        section="prefix matching over training, models with MLPs (O3)",
        printed="heads match prefixes in small models with MLPs; no share",
        null=Null(
            "mismatched",
            "the first layers of two models, whose heads have nothing to match by, for the two of "
            "one",
        ),
    ),
    FORMED.claim(
        "depth-matching-copies",
        "Heads that match prefixes copy as well: share of prefix-matching heads that raise what "
        "they attend to (cosine above 0)",
        at_least(0.9),
        "the paper has exceptions in models above 16 layers only",
        section="distributions of scores, small models (O12)",
        n=8,
        selection="finite seeds of three to six layers with a matching head; the paper's small "
        "models have up to six, and of two layers here all heads behind the first match",
        printed="high prefix scores go with positive copying, up to 16 layers; no number",
        null=WITHIN,
    ),
    FORMED.claim(
        "depth-score-together",
        "Over heads behind the first layer, copying rises with prefix matching, scores below 0.2 "
        "taken as 0.2, which is no match: rank correlation of what heads have above the mean of "
        "their layer",
        at_least(0.5),
        "as for scores and weights (`depth-evaluator-copying`); the paper gives no number",
        explanation="heads that match nothing make it 0.88 where their scores count as they are: "
        "they copy less the more they look at the previous token",
        section="distributions of scores, small models (O12)",
        n=8,
        printed="high prefix scores go with copying, most in small models; no number",
        null=WITHIN,
    ),
    FORMED.claim(
        "depth-evaluator-copying",
        "On trained heads, copying on texts goes with OV eigenvalues: rank correlation, over all "
        "heads of a model, of what they have above the mean of their layer",
        at_least(0.5),
        RANK,
        section="validation of head scores (O13)",
        n=8,
        printed="copying scores correlate well with OV eigenvalues; no coefficient",
        null=WITHIN,
    ),
    FORMED.claim(
        "depth-evaluator-matching",
        "On trained heads, prefix matching goes with the trace of the QK circuit through "
        "previous-token heads: rank correlation, over the heads of a model behind the first "
        "layer, of what they have above the mean of their layer",
        at_least(0.5),
        RANK,
        explanation="by magnitude, over the heads of all models together, the correlation is 0.93, "
        "which ten models carry",
        section="validation of head scores (O13)",
        n=8,
        printed="prefix scores correlate well with QK traces; no coefficient",
        null=WITHIN,
    ),
    FRAMEWORK.claim(
        "depth-corner-alone",
        "Induction heads are in the corner of OV and QK eigenvalues, and others are not: in models "
        "with heads of both kinds behind the first layer, share of prefix-matching heads whose "
        "smaller score is 0.8 or more, less that share of all others there",
        at_least(0.9),
        "all and no others: nine tenths of what there can be",
        explanation="with a corner from 0.9 on it is 0.90 [0.82, 0.98], which would be undecided",
        section="OV and QK eigenvalue scatter (F15)",
        printed="all induction heads in the extreme top right corner, and no others; no number",
        null=CORNERS,
    ),
    FORMED.claim(
        "depth-before-after",
        "Removing an induction head undoes the change: attribution of prefix-matching heads to what"
        " it did to single tokens, nats",
        at_most(0),
        "a sign",
        section="before-and-after attribution (O10)",
        n=8,
        printed="attribution is negative for induction heads; no number",
        explanation="in most layers with such a head all heads match, so that shuffled there they "
        "are the same; against heads that match nothing it is `depth-before-after-others`",
        null=WITHIN,
    ),
    OURS.claim(
        "depth-before-after-others",
        "... more than removing a head of the same layer that matches nothing does: difference, "
        "nats",
        at_most(0),
        "a sign",
        null=WITHIN,
    ),
    TWO.claim(
        "depth-gain",
        "Through the phase change a token that continues a repeat becomes cheaper: loss at its end "
        "less at its beginning, nats",
        at_most(-1.5),
        "through the changes of other models it is -1.2, and of one layer as large -1.4; the paper "
        "shows words of one text",
        section="per-token gains and losses (O6)",
        printed="repeated strings become cheaper; curves of single tokens, no number",
        null=BESIDE,
    ),
    TWO.claim(
        "depth-loss",
        "... and one that breaks it dearer: loss at the end of the change less at its beginning",
        at_least(1),
        "a whole nat: in the sixth behind the change it is 0.80; the paper shows words of one text",
        section="per-token gains and losses (O6)",
        printed="where Mrs is followed by something new, that becomes dearer; no number",
        null=BESIDE,
    ),
    PAPER.claim(
        "depth-score-alike",
        "Models of all sizes that have formed a prefix-matching head end with about the same "
        "in-context score: least mean of a size over the greatest",
        at_least(0.78),
        "0.4 nats from two layers to 13 billion parameters in the paper: 0.35 over 0.45, which are "
        "both 0.4 as rounded",
        section="in-context score of models of all sizes (O14)",
        printed="about 0.4 nats in all models after the phase change; only whether a model has "
        "gone through it seems to matter",
        n=30,
        selection="finite seeds of all sizes with a head of prefix score 0.4 or more, by attention "
        "and not by the score that is judged",
        null=IN_PLACE,
    ),
    ORDER.claim(
        "depth-order-before",
        "Before the phase change small models improve more slowly: fall of the loss for each "
        "factor e of tokens, narrowest less widest model, nats",
        at_most(0),
        explanation="the steps that are taken decide the sign: narrow models lose more at first, "
        "by 0.05 nats up to step 60, and less up to step 120, by 0.02",
        printed="the order switches at the change, before which small models improve more slowly; "
        "but the next sentence says that they learn more quickly in early training, and so do the "
        "figure's labels; no number",
        null=Null("permuted", "of equal means, models are shuffled between the two widths"),
    ),
    ORDER.claim(
        "depth-order-after",
        "... and after it faster: the same difference behind the change",
        at_least(0),
        explanation="narrow models change last, and a rate by the logarithm of tokens grows with "
        "them: in as many steps behind the change all widths lose about the same",
        printed="after the change the opposite: small models improve faster; the figure's labels "
        "say that large ones do; no number",
        null=Null(
            "false world",
            "the widest models' own curves behind their change, were it as late as that of the "
            "narrowest",
        ),
    ),
)
