"""Roles of heads by attention, by writing and by patching: claims, fixed before the first run.

Heads have their roles by the rules of `records.head_roles`; the scores that name a head are from
texts of their own. S0 is "Some Structures in Transformer Architectures", the project's source note,
S2 the chapter on attention, S4 the notes on the framework paper, all three as in docs/coverage.md.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper
from experiments.induction.shared.head_roles import FOUND, MOST

FULL = "all full transformers of text_models that stayed finite; each its own data"
PATHS = ClaimSource(
    "path patching (Goldowsky-Dill et al. 2023); framework paper, how induction heads work",
    cites=(Paper.FRAMEWORK, Paper.GOLDOWSKY_DILL_2023),
    kind="relation",
    selection=FOUND,
    n=8,
    origin="published",
    link=papers.FRAMEWORK,
)
PATCHING = replace(
    PATHS,
    source="activation patching (Meng et al. 2022); framework paper, how induction heads work",
    cites=(Paper.FRAMEWORK, Paper.MENG_2022),
)
ATTRIBUTION = replace(
    PATHS,
    source="direct logit attribution; S2, decomposition of the output",
    cites=(Paper.S2,),
    origin="ours",
    link="",
)
SUBSPACES = replace(
    PATHS, source="S4, read and write subspaces", cites=(Paper.S4,), origin="ours", link=""
)
MEMORY = ClaimSource(
    "S4, memory management; framework paper, residual stream (F20, F21)",
    cites=(Paper.FRAMEWORK, Paper.S4),
    kind="relation",
    selection=FULL,
    n=3,
    origin="published",
    link=papers.FRAMEWORK,
)
NORMS = replace(
    MEMORY, source="S0 section 2.3, assumption 3", cites=(Paper.S0,), link=papers.STRUCTURES
)
OUTPUT = ClaimSource(
    "S2, decomposition of the output",
    cites=(Paper.S2,),
    kind="identity",
    selection=FULL,
    origin="theorem",
)
CLAIMS = (
    PATHS.claim(
        "previous-through-keys",
        "What the previous-token head tells the second layer goes through keys: lead won "
        "back by patching its edges into all keys, over that by patching all of its edges",
        at_least(0.9),
        "nearly all; more than half was expected before a pilot with another key gave 0.997",
        explanation="whatever any head of the first layer wins back goes through keys: all of its "
        "edges into queries, into values, or to the output win back 0.027 at most",
        printed="the previous-token head shifts keys by one place; no number",
        null=Null(
            "mismatched",
            "all other heads of the first layer that win back over 0.1 of the lead",
        ),
    ),
    PATHS.claim(
        "edge-largest",
        "Share of seeds in which, of all single edges of first-layer heads, the largest "
        "joins a previous-token head (score over 0.4) to the key of an induction head",
        at_least(0.6),
        MOST + "; nearly every head of the second layer inducts, so that writer and key are "
        "what is tested",
        origin="ours",
        link="",
        null=Null("permuted", "heads are shuffled within each layer"),
    ),
    PATCHING.claim(
        "patching-moves",
        "Before the second layer, which token stood there is read one position later: lead "
        "won back by patching the stream behind a swapped token, added up over the two, over "
        "the sizes of what patching each place wins back or loses, added up",
        at_least(0.9),
        "nearly all; more than half was expected before a pilot with another key gave 1.00",
        printed="a key comes to match the token before it; no number",
        null=Null(
            "permuted", "the tokens themselves, the place before them, and two and three behind"
        ),
    ),
    ATTRIBUTION.claim(
        "direct-largest",
        "Share of seeds in which, of all components, an induction head has the largest "
        "direct effect on the answer's lead",
        at_least(0.6),
        MOST
        + "; nearly every head of the second layer inducts, so that the layer is what is tested",
        null=Null("permuted", "direct effects are shuffled among the components"),
    ),
    SUBSPACES.claim(
        "overlap-keys",
        "What the previous-token head can write is what the induction head's keys read, "
        "whatever the strengths: mean z of the overlap of subspaces against random ones",
        at_least(3),
        "three deviations, as for K-composition",
        null=Null("permuted", "what queries, or values, read in the place of what keys read"),
    ),
    OUTPUT.claim(
        "components-close",
        "Direct effects of all components and the bias add up to the logits, with MLPs and "
        "layer norms: greatest remainder over greatest logit",
        at_most(1e-4),
        "float32",
    ),
    NORMS.claim(
        "norm-costs",
        "A layer norm is not linear: nats lost when every norm divides by a constant",
        at_least(0),
        "a relation",
        origin="ours",
        link="",
        null=Null("permuted", "norms and constants are exchanged at random in each seed"),
    ),
    NORMS.claim(
        "norm-absorbed",
        "What its divisor does is approximately absorbed: those nats over what the model "
        "saves against a uniform guess",
        at_most(0.1),
        "a tenth: the source gives no number",
        explanation="nearly a fifth of what these models save, and a share that grew with "
        "training: 0.11 "
        "after 0.65 million tokens, 0.14 after 3.3 million, 0.18 after 13 million",
        printed="norms are absorbed approximately into adjacent maps; no number",
        null=Null(
            "permuted",
            "a head or an MLP in the norms' place: its output is replaced by its mean over "
            "windows, or by that on another window",
        ),
    ),
    MEMORY.claim(
        "memory-writes-against",
        "Some head or MLP writes against the stream: most negative mean cosine after training",
        at_most(-0.3),
        "-0.3 as in `stream-neuron-layers`; the least of ten falls by spread alone, so that a "
        "change since the start says little",
        explanation="no head is below -0.05 in the mean over seeds, and both MLPs write along the "
        "stream (0.26, 0.31): models of two layers may have nothing to delete",
        origin="ours",
        link="",
        null=Null("untrained", "the same components before training"),
    ),
)
