"""Claims on circuits of neurons in SmolLM2, fixed before the first run."""

from dataclasses import replace

from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null

from circuitax.records.papers import Paper

N = 10
PAPER = ClaimSource(
    "Arora et al. 2026, circuits in the neuron basis",
    cites=(Paper.ARORA_2026,),
    kind="number",
    n=N,
    selection="pairs of sentences of which the model gets both right, with other nouns and names "
    "than those on which the neurons were chosen",
    opening="SmolLM2-135M: ",
    origin="published",
    link="https://arxiv.org/abs/2601.22594",
)
OURS = replace(
    PAPER, source="circuitax", cites=(), kind="relation", origin="ours", link="", n=2 * N
)
RANDOM = Null("random", "nodes in 20 random orders")
SIDES = Null("permuted", "the two choices exchanged at random in each pair of sentences")
PAIRS = {
    "relp-gradient": ("the half rule of RelP", "the gradient"),
    "paths-relp": ("all paths through them", "the half rule of RelP"),
    "paths-direct": ("all paths through them", "the direct effect"),
    "paths-random": ("all paths through them", "chance, the mean of 20 random orders"),
}
# Of those that have failed.
WHY = {
    "paths-relp": "Paths are taken with gates held, so that what opens a gate gets no "
    "credit; the half rule gives it half.",
}

CLAIMS = (
    PAPER.claim(
        "neurons-agreement",
        "about a hundred neurons, chosen by RelP, control the agreement of verb and subject: "
        "fewest that keep 80 % of the lead, over what is left with all of them at their means, "
        "when all others are at their means and heads untouched",
        at_most(300.0),
        "three times what is printed; it is a reading of ours that 80 % is control. The paper's "
        "models have ten times as many neurons",
        section="abstract",
        printed="a circuit of about 10² MLP neurons is enough to control what the model does on a "
        "benchmark of agreement",
        null=RANDOM,
    ),
    OURS.claim(
        "neurons-agreement-both",
        "fewest neurons and heads that keep 80 % of the lead of the right verb, by all paths "
        "through them",
        at_most(1000.0),
        "2 % of all",
        n=N,
        null=RANDOM,
    ),
    OURS.claim(
        "neurons-pronoun-both",
        "fewest neurons and heads that keep 80 % of the lead of the right pronoun after a name, by "
        "all paths through them",
        at_most(1000.0),
        "2 % of all",
        n=N,
        explanation="Names were thought to tell their pronoun in fewer. Which of the nodes are "
        "about the name was not looked at.",
        null=RANDOM,
    ),
    OURS.claim(
        "neurons-object-both",
        "fewest neurons and heads that keep 80 % of the lead of the indirect object, by all paths "
        "through them",
        at_most(1000.0),
        "2 % of all",
        n=N,
        explanation="One name must be told from another by a chain of heads over 14 "
        "positions, in sentences whose other words differ too, while the means are over all of "
        "them.",
        null=RANDOM,
    ),
    *(
        OURS.claim(
            f"neurons-{name}",
            f"300 neurons and heads chosen by {first} keep more of the lead than as many by "
            f"{second}: difference over the mean lead of a task, mean over pairs of all tasks",
            at_least(0.0),
            "a sign",
            explanation=WHY.get(name, ""),
            null=SIDES,
        )
        for name, (first, second) in PAIRS.items()
    ),
)
