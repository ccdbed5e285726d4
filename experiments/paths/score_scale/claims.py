"""Claims on the scale 1/sqrt(d_k) of scores.

S1 and S2 are notes on linear algebra and on attention (docs/coverage.md); d_k is a head's width.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

PAPERS = ClaimSource(
    "S1 and S2, scaling of scores",
    cites=(Paper.S1, Paper.S2),
    kind="relation",
    n=8,
    selection="all seeds that stayed finite; each its own data",
    origin="published",
    link=papers.ATTENTION,
)
LABELS = Null(
    "permuted", "of equal means, models are shuffled between those with and without the scale"
)

CLAIMS = (
    PAPERS.claim(
        "scale-growth",
        "Without the scale the variance of scores grows in proportion to d_k: slope of log "
        "variance over log d_k at initialisation",
        near(1, 0.1),
        "1 in expectation, since queries and keys begin with variance 1; a few percent of noise "
        "from "
        "finite widths",
        origin="theorem",
        link="",
    ),
    PAPERS.claim(
        "scale-constant",
        "With the scale it does not grow: the same slope",
        near(0, 0.1),
        "0 in expectation; likewise",
        origin="theorem",
        link="",
    ),
    PAPERS.claim(
        "scale-saturates",
        "Without the scale the softmax's Jacobian falls towards zero as heads widen: slope of its "
        "log norm over log d_k at initialisation, less the slope with the scale",
        at_most(-0.36),
        "less than a fall that ends at d_k = 64 has, -0.27, or one towards 0.15, -0.359; scores "
        "with a deviation of √d_k have -1/2, of which two share the attention only if they lie "
        "about one apart",
        explanation="at the widest head, d_k = 256, 0.19 of it is left, which is not yet near "
        "zero; four widths do not tell a fall towards a tenth from one towards zero",
        printed="without it the softmax saturates, with gradients near zero; no number",
        null=Null(
            "false world",
            "it falls as measured up to d_k = 16, or 64, and levels off there; or from 64 on "
            "towards 0.15 or 0.18",
        ),
    ),
    PAPERS.claim(
        "scale-trains",
        "After training the widest heads have a higher loss without the scale: difference, nats",
        at_least(0),
        "a relation; the sources speak of gradients",
        origin="ours",
        link="",
        null=LABELS,
    ),
)
