"""Claims on models of text: no layers give bigrams, and each further layer lowers the loss.

S0 is "Some Structures in Transformer Architectures", the project's source note.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, between
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

FRAMEWORK = ClaimSource(
    "framework paper, zero-layer and one-layer models",
    cites=(Paper.FRAMEWORK,),
    kind="relation",
    n=5,
    why="a relation: the corpus changes with the Python version",
    selection="all seeds that stayed finite; each its own data",
    opening="On real text ",
    origin="published",
    link=papers.FRAMEWORK,
)

BIGRAM = ClaimSource(
    "S0 Remark 21",
    cites=(Paper.S0,),
    kind="number",
    n=5,
    selection="all seeds that stayed finite; each its own data",
    opening="On real text ",
    origin="ours",
)

DEPTHS = Null("permuted", "of equal means, models are shuffled between the two depths")

CLAIMS = (
    BIGRAM.claim(
        "text-zero-layers",
        "a model without layers ends at the bigram table: its held-out loss less the table's, nats",
        between(-0.03, 0.03),
        "0.014 in a pilot on another key; the best fit of this width is within 0.002 of the table",
        null=Null("mismatched", "one layer in the place of none"),
    ),
    FRAMEWORK.claim(
        "text-one-layer",
        "one layer has more than bigrams: held-out loss of the bigram table less its own, nats",
        at_least(0),
        printed="no layers give bigrams, one layer skip-trigrams as well; no loss",
        null=Null("permuted", "the model and the table are exchanged at random in each seed"),
    ),
    replace(BIGRAM, source="circuitax", cites=(), kind="relation").claim(
        "text-two-layers",
        "two layers beat one: difference of mean held-out loss, nats",
        at_least(0),
        "a relation: the corpus changes with the Python version",
        null=DEPTHS,
    ),
)
