"""Claims on reading neurons as a memory, fixed before the run.

S1 is the linear-algebra post and S2 the attention chapter, two of the project's sources. A unit's
keys are the tokens it reads, its values the tokens it raises.
"""

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, between
from circuitax.records.nulls import PRINTED_NUMBER, Null
from circuitax.records.papers import Paper

MEMORY = ClaimSource(
    "S2, feed-forward layers (Geva et al. 2021); S1 section 5",
    cites=(Paper.S1, Paper.S2, Paper.GEVA_2021),
    kind="relation",
    n=3,
    selection="all seeds that stayed finite, all units of all layers; seeds are the replicates",
    origin="published",
    link=papers.KEY_VALUES,
)
SIDES = Null("permuted", "the two sides of the difference are exchanged at random in each seed")
BEFORE = Null("untrained", "the same units before training")

CLAIMS = (
    MEMORY.claim(
        "neuron-lift",
        "What a unit writes comes true where it fires: share of its ten most raised tokens among "
        "the next ones there, over that everywhere, median of the units of the layer where it is "
        "less",
        at_least(1.5),
        "1 by chance; fixed for a ratio of means, 2.9 and 3.3 in a pilot on other seeds",
        printed="what a unit writes is what goes with the pattern it matched; no number",
        null=Null(
            "false world",
            "the same units before training, and worlds in which a twentieth or a quarter of the "
            "units keep their gain and no other has any",
        ),
    ),
    MEMORY.claim(
        "neuron-lift-null",
        "... and does not before training: ratio of the mean shares of all units",
        between(0.8, 1.2),
        "1 by chance; within 0.01 in a pilot on other seeds",
        kind="number",
        origin="ours",
        link="",
        null=Null(PRINTED_NUMBER, "what trained units are asked for", 1.5),
    ),
    MEMORY.claim(
        "neuron-values-rise",
        "Share of units whose values come next more often where they fire, after "
        "training minus before",
        at_least(0.2),
        "not 0.5 by chance, since shares are skewed; 0.4 and 0.5 in a pilot on other seeds",
        origin="ours",
        link="",
        null=SIDES,
    ),
    MEMORY.claim(
        "neuron-keys",
        "Keys read from weights are what a unit fires on: tokens that its ten keys in the first "
        "layer share with the ten it is most active on, over chance",
        at_least(2),
        "twice what chance gives",
        explanation="the first layer reads the token itself, so that weights say what a unit fires "
        "on before training too",
        printed="a unit's input weights match the patterns that activate it; no number",
        null=BEFORE,
    ),
    MEMORY.claim(
        "neuron-keys-rise",
        "... more so after training than before: difference, over chance",
        at_least(0),
        "a relation; added on data already accepted, where it had been the claim before",
        explanation="the first layer reads the token itself, and reads other positions too once it "
        "has learned to attend",
        origin="ours",
        link="",
        null=SIDES,
    ),
)
