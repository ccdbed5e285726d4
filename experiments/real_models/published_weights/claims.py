"""Claims on published models; without their weights no claim can be settled.

F2 to F17 number the figures of the framework paper as docs/acceptance.md does. ARENA 1.2 is the
course chapter whose two-layer model has its previous-token head at 0.7 (layer 0, head 7) and its
induction heads at 1.4 and 1.10. Claims stand together by what they need.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import PRINTED_NUMBER, Null
from circuitax.records.papers import Paper
from experiments.real_models.published_weights.sources import PRINTED

PUBLISHED = "the published model; there is one"
ARENA = ClaimSource(
    "ARENA 1.2, two-layer attention-only model",
    cites=(Paper.ARENA,),
    selection=PUBLISHED,
    why="to rounding of the printed value",
    origin="published",
    link=papers.ARENA,
    null=Null(
        "permuted",
        "the heads of each layer are shuffled, and the named ones stay",
    ),
)
NATS = ClaimSource(
    "framework paper, term importance analysis",
    cites=(Paper.FRAMEWORK,),
    selection="a two-layer model of 12 heads of 64 and about 50,000 tokens",
    why="read from an image; another model of the same sizes, on other text",
    origin="published",
    link=papers.FRAMEWORK,
    null=Null(PRINTED_NUMBER, "nothing is saved", 0.0),
)
FRAMEWORK = ClaimSource(
    "framework paper",
    cites=(Paper.FRAMEWORK,),
    kind="relation",
    selection=PUBLISHED,
    origin="published",
    link=papers.FRAMEWORK,
    null=Null(
        "permuted",
        "the heads of each layer are shuffled, and the named ones stay",
    ),
)
SMALL = ClaimSource(
    "framework paper",
    cites=(Paper.FRAMEWORK,),
    kind="relation",
    selection="any one-layer model of about 50,000 tokens",
    origin="published",
    link=papers.FRAMEWORK,
)

TWO_LAYERS = (
    ARENA.claim(
        "arena-copying-top-1",
        "Head 1.4 raises the attended token most: share of tokens",
        near(PRINTED["arena-copying-top-1"], 5e-5),
        printed="30.79 %",
        null=Null(PRINTED_NUMBER, "any of 50,278 tokens alike", 1 / 50_278),
    ),
    ARENA.claim(
        "arena-copying-top-5",
        "Head 1.4 has it among the five it raises most",
        near(PRINTED["arena-copying-top-5"], 5e-5),
        printed="47.73 %",
        null=Null(PRINTED_NUMBER, "any of 50,278 tokens alike", 5 / 50_278),
    ),
    ARENA.claim(
        "arena-both-top-1",
        "Heads 1.4 and 1.10 together: share of tokens they raise most",
        near(PRINTED["arena-both-top-1"], 5e-4),
        printed="95.6 %",
        null=Null(PRINTED_NUMBER, "any of 50,278 tokens alike", 1 / 50_278),
    ),
    ARENA.claim(
        "arena-both-top-5",
        "Heads 1.4 and 1.10 together: among the five",
        near(PRINTED["arena-both-top-5"], 5e-3),
        printed="98 %",
        null=Null(PRINTED_NUMBER, "any of 50,278 tokens alike", 5 / 50_278),
    ),
    ARENA.claim(
        "arena-previous",
        "The head of layer 0 that attends to the previous token most is 0.7",
        near(7, 0),
        "an index",
        printed="head 0.7",
        null=Null("random", "any of the heads of layer 0 alike"),
    ),
    ARENA.claim(
        "arena-induction",
        "Heads with a prefix score over 0.4 on repeated random tokens that are not "
        "1.4 and 1.10, and those two if they are not: count",
        at_most(0),
        "a list",
        kind="relation",
        printed="heads 1.4 and 1.10",
    ),
    ARENA.claim(
        "arena-induction-score",
        "Induction score 0.68 of one of both heads (which one is not said: the nearer)",
        near(0.68, 0.03),
        "ten random texts",
        printed="0.68",
        null=Null(PRINTED_NUMBER, "attention to all earlier tokens alike", 0.01),
    ),
    ARENA.claim(
        "arena-without-previous",
        "Without head 0.7 the induction score of 1.4 and 1.10 falls to about 0: the larger of both",
        at_most(0.1),
        "0.68 before",
        kind="relation",
        printed="0.68 falls to about 0",
    ),
    ARENA.claim(
        "arena-without-others",
        "Without any other head of layer 0 it changes little: least share that is left",
        at_least(0.75),
        "a quarter is little",
        kind="relation",
        printed="other heads change it little; no number",
    ),
    ARENA.claim(
        "arena-k-composition",
        "K-composition of 0.7 with 1.4 and 1.10 stands out: how many of the two "
        "largest scores of all pairs they are",
        near(2, 0),
        "a count",
        kind="relation",
        printed="0.7 stands out with 1.4 and with 1.10; no number",
    ),
    ARENA.claim(
        "arena-v-composition",
        "V-composition of 1.4 and 1.10 with layer 0 is very low: largest score over"
        " the smaller of their K-compositions with 0.7",
        at_most(0.5),
        "a half",
        kind="relation",
        printed="very low; no number",
    ),
    FRAMEWORK.claim(
        "published-corner",
        "Smaller of copying and same-matching: worst induction head minus best "
        "other head of layer 1",
        at_least(0),
        "a relation",
        section="OV and QK eigenvalue scatter (F15)",
        printed="all induction heads in the extreme top right corner, and no others; no number",
    ),
)
TEXT = (
    NATS.claim(
        "published-order-0",
        "Nats that the direct path saves over uniform guessing (F16)",
        near(1.8, 0.5),
        printed="1.8 nats",
    ),
    NATS.claim(
        "published-order-1",
        "Nats that single heads save beyond it (F16)",
        near(5.2, 0.5),
        printed="5.2 nats",
    ),
    NATS.claim(
        "published-order-2",
        "Nats that virtual heads save beyond those (F16)",
        near(0.3, 0.2),
        printed="0.3 nats",
    ),
    NATS.claim(
        "published-layer-0",
        "Nats that order-1 terms of the first layer save, given the direct path and"
        " the second layer (F17)",
        near(0.05, 0.03),
        printed="0.05 nats",
        null=Null(PRINTED_NUMBER, "nothing is saved", 0.0),
    ),
    NATS.claim(
        "published-layer-0-alone",
        "Nats that order-1 terms of the first layer save, given the direct path alone (F17)",
        near(1.3, 0.5),
        printed="1.3 nats",
    ),
    NATS.claim(
        "published-layer-1-alone",
        "Nats that order-1 terms of the second layer save, given the direct path alone (F17)",
        near(5.2, 0.5),
        printed="5.2 nats",
    ),
    NATS.claim(
        "published-layer-1",
        "Nats that order-1 terms of the second layer save, given the direct path "
        "and the first layer (F17)",
        near(4.0, 0.5),
        printed="4.0 nats",
    ),
    FRAMEWORK.claim(
        "published-text-induction",
        "On text, prefix score of the worst induction head minus the best other head",
        at_least(0),
        "a relation",
        section="attention on a paragraph of a novel (F11)",
        printed="induction heads draw lines on pieces of repeated names; no number",
    ),
)
ONE_LAYER = (
    SMALL.claim(
        "published-most-copy",
        "Most heads of a published one-layer model copy: share with an eigenvalue score over 0.1",
        at_least(0.8),
        "10 of 12 in the paper; half and more is positive of random signs too, as often as not",
        section="OV eigenvalues of a one-layer model (F9)",
        printed="10 of 12 heads",
        null=Null("permuted", "the signs of the scores are drawn anew"),
    ),
    SMALL.claim(
        "published-copying-pattern",
        "Of the hundred strongest skip-trigrams of a head, share of the pattern [b]"
        " … [a] → [b], the best head",
        at_least(0.5),
        "more than half; by chance one in 50,000",
        section="skip-trigrams by pattern (F3)",
        printed="most heads copy, by [b] … [a] → [b] among other patterns; no share",
        null=Null("random", "any of 50,000 tokens alike, the best of as many heads"),
    ),
)
WORDS = (
    FRAMEWORK.claim(
        "published-skip-trigrams",
        "Share of the named skip-trigrams (such as back … and → forth) that some "
        "head has: positive score, out among the ten it raises most",
        at_least(0.5),
        "more than half",
        section="skip-trigram tables (F2, F4)",
        selection="triples of whole tokens",
        printed="examples, such as back … and → forth; no share",
        null=Null("random", "any ten of 50,000 tokens alike, in any of as many heads"),
    ),
    FRAMEWORK.claim(
        "published-bug",
        "Some head has keep … in → mind and keep … at → bay, and so the bugs keep … in → bay and "
        "keep … at → mind too: number of such heads",
        at_least(1),
        "the paper shows one; its bugs follow, since what a head attends to and what that raises "
        "are chosen apart",
        section="skip-trigram bugs (F7)",
        selection="all heads",
        printed="keep … in → mind and at → bay force in → bay and at → mind",
        null=Null("random", "any ten of 50,000 tokens alike, in as many heads"),
    ),
)
NEVER = (
    FRAMEWORK.claim(
        "published-ten-of-twelve",
        "Share of heads with an OV eigenvalue score over 0.1",
        near(10 / 12, 1 / 24),
        "one head is a twelfth",
        section="OV eigenvalues of a one-layer model (F9)",
        kind="number",
        selection="the paper's 12-head model",
        printed="10 of 12 heads",
        null=Null(PRINTED_NUMBER, "eigenvalues of either sign alike", 0.5),
    ),
    FRAMEWORK.claim(
        "published-larger",
        "Keys of an induction head are built from tokens before the attended one: "
        "share of the score",
        at_least(0.5),
        "an illustration in the paper",
        section="induction head of a larger model (F14)",
        selection="the paper's larger model",
        printed="what keys add comes from tokens before the attended one; no number",
        null=Null(
            "random",
            "what a key has of its own token and of those before adds independent normal values: "
            "with one head shown, half of such shares are above a half",
        ),
    ),
)
CLAIMS = TWO_LAYERS + TEXT + ONE_LAYER + WORDS + NEVER
