"""Claims on English prose: sufficient training, and the loss of a table of three tokens.

They were fixed before the first run. On Python source with 512 tokens, in `text_models`, the last
doubling gained 0.007, 0.041 and 0.055 nats, and two layers ended 0.014 nats below the table.
"""

from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null

OURS = ClaimSource(
    "circuitax",
    kind="number",
    n=4,
    selection="all seeds that stayed finite at every length; each its own data",
    why="what may still be gained in training that is called converged, as in text_models",
    opening="On English prose, ",
    origin="ours",
    null=Null("mismatched", "the first doubling of tokens"),
)
LIMIT = at_most(0.02)
SHORT = (
    "an evening holds no longer training; the figure has the law through the ends of five lengths"
)

CLAIMS = (
    OURS.claim(
        "english-enough-0",
        "no layers: the last doubling of tokens gains little, in held-out nats",
        LIMIT,
    ),
    OURS.claim(
        "english-enough-1",
        "one layer: the last doubling of tokens gains little, in held-out nats",
        LIMIT,
        explanation=SHORT,
    ),
    OURS.claim(
        "english-enough-2",
        "two layers: the last doubling of tokens gains little, in held-out nats",
        LIMIT,
        explanation=SHORT,
    ),
    OURS.claim(
        "english-below-trigram",
        "two layers end below a table of three tokens (Kneser-Ney): nats, the table's less theirs",
        at_least(0),
        "a relation",
        kind="relation",
        selection="all seeds that stayed finite; each its own data",
        explanation="they are still falling, and the law of their ends reaches the table with four "
        "times the tokens; perhaps the text, whose phrases return often, suits a table of counts",
        null=Null("untrained", "two layers before training"),
    ),
)
