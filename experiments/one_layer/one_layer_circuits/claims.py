"""Claims on one-layer circuits, fixed before the run on their seed.

They were first judged on seed 0. Where a recipe or a threshold was changed after that, or set by a
pilot on other seeds, ``why`` says so; the configuration has a seed that nobody had looked at. S0 is
"Some Structures in Transformer Architectures" and S4 the notes on the framework paper, two of the
project's sources. E11 is a row of docs/errata.md: one head computes more than any sum of bigrams
and skip-trigrams. F8 and F9 are figures of the framework paper, as docs/acceptance.md numbers them.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, between, near
from circuitax.records.nulls import PRINTED_NUMBER, Null
from circuitax.records.papers import Paper

FRAMEWORK = ClaimSource(
    "framework paper",
    cites=(Paper.FRAMEWORK,),
    kind="relation",
    n=6,
    selection="all seeds that stayed finite; every head counts, seeds are the replicates",
    origin="published",
    link=papers.FRAMEWORK,
)
ON_TEXT = ClaimSource(
    "S4; Shlegeris 2023 (E11)",
    cites=(Paper.S4, Paper.SHLEGERIS_2023),
    kind="relation",
    n=5,
    origin="correction",
)
ENSEMBLE = replace(ON_TEXT, source="S0 Theorem 25", cites=(Paper.S0,))
UNLESS = ClaimSource(
    "S0 Theorem 25; S4; Shlegeris 2023 (E11)",
    cites=(Paper.S0, Paper.S4, Paper.SHLEGERIS_2023),
    kind="relation",
    n=8,
    origin="correction",
)
LOGISTIC = ClaimSource("S0 Theorem 25; S4 (E11)", cites=(Paper.S0, Paper.S4), n=8, origin="ours")

SIDES = Null("permuted", "the two sides of the difference are exchanged at random in each seed")
BEFORE = Null("untrained", "the same heads before training")
TWO_TRAINED = Null(
    "false world",
    "the two best heads are as trained beside untrained ones of all seeds, or all are untrained: "
    "of each two draws the one nearer to holding",
)

CLAIMS = (
    FRAMEWORK.claim(
        "ov-random",
        "Before training the OV eigenvalue score is 0: mean over heads",
        between(-0.1, 0.1),
        "rank 16, mean of four heads",
        section="one-layer models",
        kind="number",
        origin="ours",
        link="",
        null=Null(PRINTED_NUMBER, "a head that copies", 1.0),
    ),
    FRAMEWORK.claim(
        "ov-copying-rise",
        "Training makes heads copy: score after minus before, which all but one head of a seed "
        "reach (F8)",
        at_least(0.25),
        "the score from which a head copies (`ov-most-copy`); in a median of four heads two that "
        "copy are enough",
        section="OV eigenvalues, trained against random (F8)",
        printed="trained heads have near-positive eigenvalues, random ones symmetric; no number",
        null=Null(
            "permuted",
            "the two sides of the difference are exchanged at random in each seed, or the two "
            "best heads are as trained beside untrained ones of all seeds; of each two draws the "
            "one nearer to holding",
        ),
    ),
    FRAMEWORK.claim(
        "ov-most-copy",
        "Most heads copy: share of heads with a score above 0.25, which 95 % of random heads "
        "between trained embeddings do not have (F9)",
        at_least(0.625),
        "10 of 12 in the paper; half of the way from two of four heads, which are not most, to "
        "three, set after the look. Of untrained heads 95 % are below 0.16; random "
        "ones were drawn between the embeddings of published models, which this record has not",
        section="OV eigenvalues of a one-layer model (F9)",
        printed="10 of 12 heads copy significantly",
        null=TWO_TRAINED,
    ),
    FRAMEWORK.claim(
        "ov-positive",
        "As many heads have a score above 0.25, as `ov-most-copy` explains, as copy significantly "
        "in the paper: share (F9)",
        near(10 / 12, 0.1),
        "a tenth of 10 of 12; added on data already accepted",
        section="OV eigenvalues of a one-layer model (F9)",
        kind="number",
        printed="10 of 12 heads copy significantly",
        explanation="Eight seeds have an interval wider than what is allowed: more can decide.",
        quantity="ov-most-copy",
        null=BEFORE,
    ),
    FRAMEWORK.claim(
        "copying-top-5",
        "In the best head, tokens are among the five they raise most more often than by chance: "
        "ratio. Ten times chance is 10 % of all tokens, and 5 % in the mean head, which makes no "
        "copying head",
        at_least(2),
        "chance is 1 for one head; the best of four untrained heads has about 1.4",
        section="one-layer models",
        origin="ours",
        link="",
        null=BEFORE,
    ),
    FRAMEWORK.claim(
        "bugs-cost",
        "Bilinearity costs: held-out nats an event that a free vector for each frequent pair saves",
        at_least(0),
        "a relation, and an upper bound: the vectors also make up for what bigrams "
        "or more training would bring; the paper leaves the price open. Their prior"
        " was set after a run on seed 0, without it they overfit",
        section="skip-trigram bugs; S4",
        cites=(Paper.FRAMEWORK, Paper.S4),
        origin="ours",
        link="",
        null=SIDES,
    ),
    FRAMEWORK.claim(
        "bugs-said",
        "Forced corners that the text never has are said all the same: P(out) at "
        "their pairs, over that without the head (geometric mean of the strongest "
        "twelve)",
        at_least(1),
        "a relation between a head's own raise, by which corners are found, and the whole model's "
        "probability; with patterns held other heads act on both alike",
        origin="ours",
        link="",
        null=Null(
            "permuted",
            "with and without the head are exchanged at random in each seed; that the head's own "
            "raise chooses the outs it leaves as it is",
        ),
    ),
    ON_TEXT.claim(
        "text-additivity-gap",
        "On text, heads with a softmax beat the same heads as a sum over sources, both trained "
        "from equal initialisations on the same windows, each family at its own best rate: "
        "held-out nats a token",
        at_least(0),
        "a relation; -0.008 in a pilot on root key 77, one seed, 1,500 steps",
        selection="pairs of models that both stayed finite",
        explanation="the sum ends below: without a denominator a source may count more than once, "
        "and it has a factor for each destination token, 1,024 a head; which of the two pays was "
        "not tried. What only a softmax can say (a unless b) is worth less than that on this text",
        null=Null("permuted", "the softmax and the sum exchanged at random in each pair"),
    ),
    ENSEMBLE.claim(
        "text-ensemble",
        "Much of what one layer gains over the bigram table, bigrams and "
        "skip-trigrams gain too: share of the gain that the sum over sources has",
        at_least(0.5),
        "more than half; 1.01 in that pilot",
        selection="as text-additivity-gap",
        origin="ours",
        null=Null("false world", "the sum over sources gains nothing over the bigram table"),
    ),
    UNLESS.claim(
        "additivity-gap",
        "On 'a unless b' one head, trained, beats every sum of skip-trigrams: held-out nats an "
        "answer, mean over all seeds",
        at_least(0),
        "a relation; 0.029 at the optimum of both",
        selection="all seeds that stayed finite, whether or not the head learned the rule",
        explanation="seven of sixteen heads end at a worse loss than the best sum, perhaps because "
        "they stop in another minimum: those that learned the rule are in the next row",
        null=Null("permuted", "the head and the sum exchanged at random in each seed"),
    ),
    UNLESS.claim(
        "additivity-gap-learned",
        "... and a head that has learned the rule does: mean over those seeds",
        at_least(0),
        "a relation, of seeds chosen by what they learned. The recipe was changed after a "
        "run on seed 0, where few heads learned the rule",
        selection="seeds whose head learned the rule (P(out) over 0.75 with a alone)",
        origin="ours",
        null=Null("permuted", "the head and the sum exchanged at random in each seed"),
    ),
    LOGISTIC.claim(
        "additive-loss",
        "On 'a unless b' the best sum of skip-trigrams misses the optimum: its "
        "held-out loss less the entropy of the answers, nats",
        near(0.0289, 0.01),
        "a logistic regression on the presence of a and of b, solved exactly; the "
        "table is fitted to 2,048 texts, which adds a little",
        selection="all seeds",
        null=Null(PRINTED_NUMBER, "a sum that reaches the optimum", 0.0),
    ),
)
