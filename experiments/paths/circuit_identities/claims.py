"""Claims on the identities and nulls of circuits, fixed before the first run.

A null is what freshly drawn weights give, before any training. E15 and E16 are rows of
docs/errata.md, where the sources slip: a product that was cycled inside a Frobenius norm, and
composition scores without a null. F9 is a row of docs/acceptance.md, the framework paper's count of
heads that copy.
"""

from dataclasses import replace

from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import PRINTED_NUMBER, Null
from circuitax.records.papers import Paper

RANDOM = "all seeds and all heads or pairs of each; seeds are the replicates"
EXACT = ClaimSource(
    "framework paper",
    cites=(Paper.FRAMEWORK,),
    kind="identity",
    selection="every model, 0 to 4 layers, bare or with frozen norms",
    why="float64 rounding; a wrong term is of order 1",
    origin="theorem",
)
ABLATION = replace(EXACT, source="induction-heads paper", cites=(Paper.INDUCTION,))
NULL = ClaimSource(
    "reference page 1.6; framework paper",
    cites=(Paper.FRAMEWORK,),
    n=8,
    selection=RANDOM,
    origin="ours",
)
SPREAD = replace(NULL, source="reference page 1.2 (derived)", cites=())
COPYING_SPREAD = replace(NULL, source="reference page 1.3 (F9, derived)", cites=())
CLAIMS = (
    EXACT.claim(
        "identity-paths",
        "All path terms sum to the logits, patterns frozen: greatest error, relative",
        at_most(1e-12),
        section="path expansion",
    ),
    EXACT.claim(
        "identity-paths-float32",
        "The same in float32, two layers: greatest error, relative",
        at_most(1e-5),
        "float32 rounding",
        section="path expansion",
        selection="all members",
    ),
    EXACT.claim(
        "identity-scores",
        "Terms by source of query and of key sum to the scores of a second-layer "
        "head, and give its pattern: greatest error, relative",
        at_most(1e-12),
        section="QK circuit of the second layer",
    ),
    EXACT.claim(
        "identity-score-count",
        "With twelve heads a layer there are (1 + 12)² = 169 of them, 14² = 196 "
        "with positions: difference of counts",
        at_most(0),
        "exact",
        section="QK circuit of the second layer",
        selection="all members",
    ),
    EXACT.claim(
        "identity-orders",
        "Paths of order up to the depth are the full forward pass: greatest error, relative",
        at_most(1e-12),
        section="path expansion",
    ),
    EXACT.claim(
        "identity-direct",
        "The logits of order 0 are rows of W_E W_U: greatest error, relative",
        at_most(1e-12),
        section="path expansion",
    ),
    EXACT.claim(
        "identity-runs",
        "The paper's repeated runs, each adding what heads wrote in the run before,"
        " give the orders of one polynomial pass: greatest error, relative",
        at_most(1e-12),
        section="term importance analysis",
    ),
    EXACT.claim(
        "identity-kronecker",
        "The Kronecker matrix of a head, applied to the flattened stream, is A x W:"
        " greatest error, relative",
        at_most(1e-12),
        section="attention heads as tensor products",
    ),
    ABLATION.claim(
        "identity-ablation",
        "Pattern-preserving ablation of a head is the logits less all paths through"
        " it: greatest error, relative",
        at_most(1e-12),
        section="pattern-preserving ablation",
    ),
    EXACT.claim(
        "identity-eigenvalues",
        "Eigenvalues of the k × k core are the non-zero ones of the V × V circuit: "
        "greatest error, relative",
        at_most(1e-10),
        section="low-rank matrices",
    ),
    EXACT.claim(
        "identity-trace",
        "The trace of the factored circuit, and the sum of its diagonal, are those "
        "of the dense one: greatest error, relative",
        at_most(1e-10),
        section="low-rank matrices",
    ),
    EXACT.claim(
        "identity-norm",
        "The Frobenius norm of the factored circuit is that of the dense one: "
        "greatest error, relative",
        at_most(1e-10),
        section="low-rank matrices",
    ),
    EXACT.claim(
        "norm-not-cyclic",
        "A cyclic shift changes the Frobenius norm: least relative change over all heads",
        at_least(1e-3),
        "far above rounding; it holds in general",
        section="erratum of the composition diagram (E15)",
        selection="every model with layers",
        origin="correction",
    ),
    NULL.claim(
        "random-composition",
        "Before training composition scores centre on 1/√d_model: mean over pairs "
        "times √d_model, the kind of Q, K, V farthest from 1",
        near(1, 0.02),
        "within 2 % at d_model = 768",
        section="composition scores (E16)",
        origin="correction",
        null=Null(
            PRINTED_NUMBER,
            "a score that is 0 where nothing composes, as the sources have it",
            0.0,
        ),
    ),
    SPREAD.claim(
        "random-composition-spread",
        "Their standard deviation over pairs is (1 + d_head/d_model)/(√2 d_head √d_model), since "
        "a product of two Gaussian factors has unequal singular values: ratio, mean over kinds",
        near(1, 0.1),
        "144 pairs a seed estimate a deviation to 6 %, eight seeds to 2 %; without the factor "
        "1 + d_head/d_model = 1.083 the value was 1.119, of the kind farthest from 1",
        null=Null(PRINTED_NUMBER, "no spread", 0.0),
    ),
    NULL.claim(
        "random-copying",
        "Before training the OV eigenvalue score is 0: mean over heads",
        near(0, 0.03),
        "0 ± 0.03 at d_head = 64",
        section="OV eigenvalues",
        null=Null(PRINTED_NUMBER, "a head that copies", 1.0),
    ),
    COPYING_SPREAD.claim(
        "random-copying-spread",
        "Standard deviation of the score over heads: 0.1 is beyond three",
        at_most(0.033),
        "0.023 for Ginibre",
        null=Null("false world", "scores lie anywhere between -1 and 1 alike"),
    ),
)
