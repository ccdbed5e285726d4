"""Claims on SmolLM2's name movers, fixed before the first run.

The paper is about GPT-2 small; that SmolLM2 goes on with the right name in one sentence of this
kind had been seen, none of its heads.
"""

from dataclasses import replace

from circuitax.records.claims import ClaimSource, at_least
from circuitax.records.nulls import Null

from circuitax.records.papers import Paper

HEADS = Null("random", "sets of three random heads of the second half of the layers")
PAPER = ClaimSource(
    "Wang et al. 2022, interpretability in the wild",
    cites=(Paper.WANG_2022,),
    kind="relation",
    n=40,
    selection="forty sentences of a seeded grammar, with other names than those on which the "
    "three heads with the largest direct effects were chosen",
    opening="SmolLM2-135M, at the end of sentences with an indirect object: ",
    origin="published",
    link="https://arxiv.org/abs/2211.00593",
    null=HEADS,
)
OURS = replace(PAPER, source="circuitax", cites=(), origin="ours", link="")
SEEN = (
    "the first run had head 23.0 as the only name mover of the three (attention 0.66, correlation "
    "0.89): 23.3 attends to the subject where it comes again, and lowers it, and 29.1 attends to "
    "neither name. A head that lowers the subject has a direct effect on the lead like one that "
    "raises the object, and a choice by that effect takes both. Of what the paper calls a name "
    "mover, a head that attends to a name and copies it, SmolLM2 has several: 23.0, 23.1, 23.2 and "
    "23.7, four of the five heads that raise the object's own logit most, attend to it with 0.40 "
    "to 0.66 and correlate with 0.76 to 0.95"
)

CLAIMS = (
    PAPER.claim(
        "movers-task",
        "the model prefers the indirect object to the subject: share of sentences",
        at_least(0.9),
        "nine in ten, of a model of the same size",
        selection="forty sentences of a seeded grammar",
        printed="99.3 % of sentences, GPT-2 small",
        null=Null("permuted", "the two names exchanged at random in each sentence"),
    ),
    PAPER.claim(
        "movers-attend",
        "the three heads attend to the indirect object: attention from the last position, mean "
        "over the heads",
        at_least(0.3),
        "half of what is printed",
        explanation=SEEN,
        printed="0.59 on average, three name movers of GPT-2 small",
    ),
    PAPER.claim(
        "movers-name",
        "they attend to it rather than to the subject: that attention minus the attention to both "
        "places of the subject",
        at_least(0.0),
        "a sign",
        explanation=SEEN,
        printed="to the indirect object; no number for the subject",
    ),
    PAPER.claim(
        "movers-copy",
        "they raise what they attend to: correlation, over sentences and both names, of the "
        "attention to a name and the direct effect on its logit, mean over the heads",
        at_least(0.5),
        "a relation; the printed one is of heads that path patching chose",
        explanation=SEEN,
        printed="above 0.81 for each of three name movers of GPT-2 small",
    ),
    OURS.claim(
        "movers-removed",
        "without them the lead of the indirect object falls by more than without three others: "
        "difference of the falls over the intact lead",
        at_least(0.05),
        "a twentieth: in GPT-2 small, where other heads take over, Wang et al. 2022 find 5 %",
        null=Null("random", "each random set against the others"),
    ),
)
