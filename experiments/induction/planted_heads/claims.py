"""Claims on evaluators of heads, fixed before the first run.

O13 and F6 are rows of docs/acceptance.md.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

RANK = "the paper's scatters, of trained heads (O13), correlate well, and have no number"
KNOWN = "a score that orders heads by their strength has 1"
OURS = ClaimSource(
    "circuitax",
    kind="relation",
    n=16,
    selection="all models; each its own random parts, order of strengths and texts",
    why=KNOWN,
    origin="ours",
)
BUILT = "both scores rise with the strength that was planted, so that this calibrates them"
SHUFFLED = Null("permuted", "one of the two scores is shuffled among the heads of each model")


def same_strength(score: str) -> Null:
    """The null of a score of the weights that has nothing but the planted strength in it."""
    return Null("mismatched", f"the {score} of another model's head planted with the same strength")


CLAIMS = (
    OURS.claim(
        "planted-copying",
        "On heads of planted strength, copying on random tokens goes with OV eigenvalues: rank "
        "correlation over the heads of a model",
        at_least(0.8),
        RANK,
        explanation=BUILT,
        cites=(Paper.INDUCTION,),
        null=same_strength("eigenvalues"),
    ),
    OURS.claim(
        "planted-matching",
        "On heads of planted strength, prefix matching goes with the trace of the QK circuit "
        "through previous-token heads: rank correlation over the heads of a model",
        at_least(0.8),
        RANK,
        explanation=BUILT,
        cites=(Paper.INDUCTION,),
        null=same_strength("trace"),
    ),
    OURS.claim(
        "planted-eigenvalues-known",
        "OV eigenvalues order heads by the strength of their copying: rank correlation",
        at_least(0.95),
        null=SHUFFLED,
    ),
    OURS.claim(
        "planted-trace-known",
        "The trace of the QK circuit orders heads by the strength of their matching: rank "
        "correlation",
        at_least(0.95),
        null=SHUFFLED,
    ),
    OURS.claim(
        "planted-prefix-known",
        "Prefix matching orders heads by the strength of their matching: rank correlation",
        at_least(0.9),
        null=SHUFFLED,
    ),
    OURS.claim(
        "planted-previous-known",
        "The previous-token score orders heads by the strength of their looking back: rank "
        "correlation",
        at_least(0.9),
        null=SHUFFLED,
    ),
    OURS.claim(
        "planted-erasing-seen",
        "A cosine orders heads that take back what they attend to by their strength: rank "
        "correlation over heads of negative strength",
        at_least(0.8),
        null=SHUFFLED,
    ),
    OURS.claim(
        "planted-erasing-unseen",
        "... and the share of a ReLU, which the paper's evaluator takes, tells them apart less: "
        "rank correlation, less that of the cosine",
        at_most(0),
        "a relation: all that is negative is cut off",
        null=SHUFFLED,
    ),
    ClaimSource(
        "framework paper, primarily positional heads (F6)",
        cites=(Paper.FRAMEWORK,),
        kind="relation",
        n=16,
        selection="all models and offsets 0 to 23",
        origin="published",
        link=papers.FRAMEWORK,
    ).claim(
        "planted-offsets",
        "A head can ask sinusoidal positions for any fixed offset: share of 24 heads, one an "
        "offset, that attend most at theirs, beside random tokens",
        at_least(0.95),
        "each of them, but for a tie of long waves",
        printed="sinusoids turn a shift into a rotation: W_QK can select any offset",
        null=Null("permuted", "the offsets asked for are shuffled among the heads of each model"),
    ),
)
