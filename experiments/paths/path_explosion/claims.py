"""Claims on the path explosion, fixed before the first run.

S0 is "Some Structures in Transformer Architectures", the project's source note; a model has L
layers of H heads, and a path of order k goes through k heads.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

UNBOUNDED = Null(
    "false world",
    "nothing bounds what a path holds: what is evaluated proves only where it is all paths",
)
FINITE = "all finite seeds"
PILOT = (
    "pilot on seed 77, two members, 800 steps: 0.02, 1.00 and 0.87 nats for one, two and three "
    "steps in one layer, 0.01, 0.05 and 0.85 in two, 0.00, 0.01 and 0.14 in four, "
    "0.02, 0.04 and 0.73 in six, which were still falling"
)
FRAMEWORK = ClaimSource(
    "framework paper",
    cites=(Paper.FRAMEWORK,),
    kind="relation",
    n=8,
    selection=FINITE,
    origin="published",
    link=papers.FRAMEWORK,
)
OWN = ClaimSource("circuitax", kind="relation", n=8, selection=FINITE, origin="ours")
SIDES = Null("permuted", "the two sides of the difference are exchanged at random in each seed")

CLAIMS = (
    ClaimSource(
        "S0 section 6; framework paper", cites=(Paper.FRAMEWORK, Paper.S0), origin="theorem"
    ).claim(
        "paths-count",
        "A model has Σ_k C(L,k) H^k paths: greatest difference from enumeration over "
        "depths and orders",
        at_most(0),
        "exact",
        kind="identity",
    ),
    FRAMEWORK.claim(
        "paths-close",
        "All paths of all depths sum to the logits: greatest remainder over greatest logit",
        at_most(0.0001),
        "float32, up to 15,625 terms",
        section="path expansion",
        kind="identity",
        selection="all members",
        n=1,
        origin="theorem",
        link="",
    ),
    FRAMEWORK.claim(
        "order-2-below-1",
        "In two layers, virtual heads are worth less than single heads: what order 1 adds to the "
        "right token's lead over the others, were these alike, counted from a guess where the "
        "direct path is worse, minus what order 2 adds, nats",
        at_least(0),
        "a relation; the paper has 5.2 against 0.3 of loss, far from no loss. Here order 1 "
        "leaves 0.54 nats of a guess's 1.61, less than it saved itself",
        section="term importance analysis",
        printed="5.2 nats of order 1 against 0.3 of order 2; of web text, where this is a task of "
        "three lookups that two layers cannot end: nats are not compared",
        null=SIDES,
    ),
    FRAMEWORK.claim(
        "most-paths-least-loss",
        "In the deepest models, the share of the gain over a guess of the answer that comes last, "
        "from orders 3 and up, which hold 98 % of the paths",
        at_most(0.5),
        "a relation: less than half, on a task that one layer cannot do",
        section="term importance analysis",
        origin="ours",
        link="",
        null=Null("false world", "every path of the deepest models gains alike"),
    ),
    OWN.claim(
        "depth-pays",
        "Depth pays: loss on answers of one layer minus that of the deepest models, nats",
        at_least(0.3),
        PILOT,
        null=Null("permuted", "of equal means, models are shuffled between the two depths"),
    ),
    OWN.claim(
        "second-step-needs-depth",
        "One layer looks up one step and not a second one: its loss on answers that are two steps "
        "away minus on those one step away, nats",
        at_least(0.5),
        PILOT,
        null=SIDES,
    ),
    OWN.claim(
        "third-step-needs-depth",
        "Two layers look up two steps and not a third one: the same difference between answers "
        "three steps away and those two steps away, nats",
        at_least(0.3),
        PILOT,
        null=SIDES,
    ),
    OWN.claim(
        "ledger-complete",
        "Share of the deepest models in which the ledger proves its twenty largest paths "
        "to be the largest of all, on each text ranked",
        at_least(0.6),
        "95 % interval of 8 of 8 ends at 0.68",
        null=UNBOUNDED,
    ),
    OWN.claim(
        "ledger-brute-force",
        "In the deepest models the ledger's paths are the largest of all, computed one by "
        "one: greatest difference in size, over the largest path",
        at_most(0.0001),
        "float32, 15,625 paths, trained models",
        kind="identity",
        selection="all finite seeds, all texts ranked",
        n=1,
        origin="theorem",
    ),
    OWN.claim(
        "ledger-positions",
        "The share in which it proves the same of paths of heads and positions (ten "
        "thousand million in six layers)",
        at_least(0.6),
        "as ledger-complete; a pilot with another key proved 3 of 3",
        null=UNBOUNDED,
    ),
    OWN.claim(
        "ledger-cost",
        "Share of all paths that the ledger has to evaluate in the deepest models",
        at_most(0.5),
        "a bound that bites",
        null=Null(
            "false world",
            "nothing bounds what a path holds, so that all of them are evaluated",
        ),
    ),
)
