"""Statements about text that were settled on Python source, now on English prose.

They were fixed before the English models were trained. Thresholds are those of the claims on Python
source, in `text_models`, `one_layer_circuits` and `text_circuits`, which say why. F2 to F17 number
figures of the framework paper, as in docs/acceptance.md.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, between

MODELS = ClaimSource(
    "framework paper",
    kind="shape",
    selection="all seeds that stayed finite; each its own data",
    n=4,
    why="a relation, or the threshold of the same claim on Python source",
    opening="On English prose, ",
    origin="published",
    link=papers.FRAMEWORK,
)
INDUCTION = replace(MODELS, source="induction-heads paper", link=papers.INDUCTION)
OURS = replace(MODELS, source="circuitax", origin="ours", link="")
TERMS = replace(MODELS, source="framework paper, term importance analysis")
CLAIMS = (
    OURS.claim(
        "english-zero-layers",
        "a model without layers ends at the bigram table: its held-out loss less the table's, nats",
        between(-0.05, 0.05),
        "0.03 on Python source; twice the vocabulary has four times the pairs",
        kind="number",
    ),
    MODELS.claim(
        "english-one-layer",
        "one layer beats zero: difference of held-out loss, nats",
        at_least(0),
        section="zero-layer and one-layer models",
        printed="no layers give bigrams, one layer skip-trigrams as well; no loss",
    ),
    INDUCTION.claim(
        "english-two-layers",
        "two layers beat one: difference of held-out loss, nats",
        at_least(0),
        section="loss curves (O4)",
        printed="two layers leave the curve of one at the bump; no number",
    ),
    MODELS.claim(
        "english-most-copy",
        "most heads of one layer copy: share of heads with an OV eigenvalue score over 0.1 (F9)",
        at_least(0.5),
        printed="10 of 12 heads have positive eigenvalues",
        section="OV eigenvalues of a one-layer model (F9)",
        explanation="seeds differ: from one head of four to three; the interval of eight holds the "
        "limit",
    ),
    MODELS.claim(
        "english-copying-rise",
        "training makes heads of one layer copy: mean OV eigenvalue score after minus before (F8)",
        at_least(0),
        section="OV eigenvalues, trained against random (F8)",
        printed="trained heads have near-positive eigenvalues, random ones symmetric; no number",
    ),
    MODELS.claim(
        "english-rejoin",
        "heads re-join words that were split in two tokens, [b] … [a] → [b]: in standard "
        "deviations, by how much the chosen head prefers a word's own second piece, after minus "
        "before training; the head is chosen on other words (F3)",
        at_least(0),
        section="skip-trigrams by pattern (F2, F3)",
        printed="words in two pieces are joined again: Ralph … R → alph; no number",
        explanation="the interval is wider than the value: each seed has one head, chosen and "
        "judged on a few words",
    ),
    MODELS.claim(
        "english-table-rows",
        "the paper's rows of skip-trigrams (perfect, large, two, great) whose words are tokens "
        "here stand higher in the best head than before training: difference of percentiles (F3)",
        at_least(0),
        section="skip-trigram tables (F2), S0 Table 1",
        printed="perfect … are → perfect, two … has → three; no number",
    ),
    TERMS.claim(
        "english-order-0",
        "the direct path alone beats uniform guessing: nats saved (F16; 1.8 in the paper)",
        at_least(0),
        printed="1.8 nats",
    ),
    TERMS.claim(
        "english-order-1-above-0",
        "single heads save more than the direct path: marginal of order 1 minus that of order 0 "
        "(F16; 5.2 against 1.8)",
        at_least(0),
        printed="5.2 nats against 1.8",
    ),
    TERMS.claim(
        "english-order-1-above-2",
        "single heads save more than virtual heads: marginal of order 1 minus that of order 2 "
        "(F16; 5.2 against 0.3)",
        at_least(0),
        printed="5.2 nats against 0.3",
    ),
    TERMS.claim(
        "english-layer-0-redundant",
        "the first layer's order-1 terms lose worth once the second layer's are there: marginal "
        "given the direct path minus marginal given both (F17; 1.3 against 0.05)",
        at_least(0),
        printed="1.3 nats against 0.05",
    ),
    TERMS.claim(
        "english-layer-0-nearly-redundant",
        "of what they are worth given the direct path alone, little is left given both: share "
        "(F17; 0.05 of 1.3 in the paper)",
        at_most(0.2),
        printed="0.05 nats of 1.3",
    ),
    TERMS.claim(
        "english-layer-1-above-0",
        "the second layer's order-1 terms are worth more, given the first's, than the first's "
        "given the second's: difference (F17; 4.0 against 0.05)",
        at_least(0),
        printed="4.0 nats against 0.05",
    ),
    MODELS.claim(
        "english-local",
        "heads of the first layer look at the present and the previous token more than evenly: "
        "share of attention minus that of uniform attention (F6)",
        at_least(0),
        section="primarily positional heads (F6)",
        printed="a few heads prefer offsets, such as present and previous token; no share",
    ),
    INDUCTION.claim(
        "english-previous-head",
        "two layers trained on plain text form a previous-token head: mean attention of the best "
        "first-layer head to the previous token",
        at_least(0.4),
        section="argument 1",
        printed="an induction head of two layers reads a previous-token head; no score",
    ),
    INDUCTION.claim(
        "english-induction-head",
        "two layers trained on plain text form an induction head: mean prefix score of the best "
        "head",
        at_least(0.4),
        section="argument 1 (O3)",
        printed="prefix scores of some heads shoot up in the phase change; no number",
    ),
)
