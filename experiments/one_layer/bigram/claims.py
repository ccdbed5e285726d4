"""Claims on zero-layer models and of direct paths.

S0 is "Some Structures in Transformer Architectures", the project's source note; E24 is a row of
docs/errata.md. The table is the smoothed bigram table of the text.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, between
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

FINITE = "all seeds that stayed finite"
RELATION = "a relation: the corpus changes with the Python version"
REMARK = ClaimSource(
    "S0 Remark 21",
    cites=(Paper.S0,),
    kind="relation",
    n=5,
    selection=FINITE,
    origin="published",
    link=papers.STRUCTURES,
)
THEOREM = ClaimSource(
    "S0 Theorem 25, erratum E24",
    cites=(Paper.S0,),
    kind="relation",
    n=5,
    selection=FINITE,
    why=RELATION,
    origin="correction",
)
SIDES = Null("permuted", "the two sides of the difference are exchanged at random in each seed")
HALF = Null("mismatched", "the widest model below it, of half as many dimensions")
NARROW = Null("mismatched", "the narrowest model, which cannot hold the table")

CLAIMS = (
    REMARK.claim(
        "bigram-full-width",
        "A zero-layer model as wide as the vocabulary is the bigram table: mean KL "
        "divergence from the smoothed table, nats",
        at_most(0.006),
        "smoothing and an early end leave 0.005; half the width has 0.0068",
        printed="no layers: a bigram model, the next token from the present one; no number",
        null=HALF,
    ),
    REMARK.claim(
        "bigram-held-out",
        "... and predicts held-out text as well: its cross-entropy minus the table's, nats",
        between(-0.03, 0.03),
        "the two smooth rare pairs differently",
        explanation="one pseudo-count a row, the table's smoothing, is too little for the rare "
        "pairs of 1,024 tokens: a Kneser-Ney table of the same counts has 3.992 nats, 0.012 below "
        "the model; with 512 tokens the claim held (-0.017)",
        origin="ours",
        link="",
        null=NARROW,
    ),
    REMARK.claim(
        "bigram-bottleneck",
        "A narrow model cannot hold the table: KL at the smallest width minus KL at full "
        "width, nats",
        at_least(0.1),
        RELATION,
        origin="ours",
        link="",
        null=SIDES,
    ),
    THEOREM.claim(
        "bigram-direct-path",
        "The direct path of a one-layer model is not the bigram model: its KL from the "
        "table minus that of a zero-layer model trained alike, nats",
        at_least(0),
        null=SIDES,
    ),
    THEOREM.claim(
        "bigram-marginal",
        "The whole one-layer model, averaged over contexts, is nearer to the table than "
        "its direct path is: difference of KL, nats",
        at_least(0),
        null=SIDES,
    ),
)
