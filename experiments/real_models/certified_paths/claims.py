"""Claims on a certified ledger of a real model, fixed before the first run."""

from dataclasses import replace

from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null

N = 60
OURS = ClaimSource(
    "goal of this project",
    kind="relation",
    n=N,
    selection="all prompts: half of random tokens twice, half of prose",
    opening="SmolLM2-135M, lead of the right token over its rival: ",
    why="set before the first run",
    origin="ours",
)
PROVEN = replace(OURS, n=N * 9 // 10, selection="prompts whose list is proven")

CLAIMS = (
    OURS.claim(
        "certified-complete",
        "share of prompts whose twenty largest paths are proven to be the largest",
        at_least(0.9),
        null=Null(
            "false world",
            "nothing bounds what a path holds: what is evaluated proves only where it is all paths",
        ),
    ),
    OURS.claim(
        "certified-closing",
        "largest difference between all paths together and the model's own lead, logits",
        at_most(1e-2),
        "double precision there, single precision of 30 layers here: 1e-4 of logits up to 100",
        null=Null("false world", "the last of the twenty listed paths is left out"),
    ),
    OURS.claim(
        "certified-short",
        "share of the listed paths that go through at most one head",
        at_least(0.8),
        "a relation: paths through several heads exist in far larger number, but each is a product "
        "of patterns and maps",
        null=Null(
            "random",
            "any path alike, of those through at most one head in each of 30 layers",
        ),
    ),
    OURS.claim(
        "certified-induction",
        "share of prompts of random tokens with one of the five best induction heads of "
        "`real_induction` on a listed path",
        at_least(0.9),
        "these heads match the repeated token, and copy",
        explanation="twenty paths reach little beyond what MLPs write to the logits themselves; an "
        "induction head may work by many paths, each smaller than the twentieth, since what it "
        "reads is split by the layer that wrote it",
        n=N // 2,
        selection="all prompts of random tokens",
        null=Null("random", "any five heads in the place of the five best"),
    ),
    PROVEN.claim(
        "certified-missed-heads",
        "share of the heads on the listed paths that are not among as many heads with the largest "
        "gradient times activation, mean over prompts",
        at_least(0.1),
        "one head in ten",
        null=Null(
            "mismatched",
            "the gradient with patterns held, which is the sum of all paths through a head",
        ),
    ),
    PROVEN.claim(
        "certified-missed-paths",
        "share of prompts where such a head hides one of the twenty paths",
        at_least(0.5),
        "every second prompt",
        null=Null(
            "mismatched",
            "the gradient with patterns held, which is the sum of all paths through a head",
        ),
    ),
    PROVEN.claim(
        "certified-frozen-misses-less",
        "share of heads missed by gradients of the real model, minus that by gradients with "
        "patterns, norm scales and outputs of MLPs held, mean over prompts",
        at_least(0.0),
        "a sign: with these held, the gradient is the sum of all paths through a head",
        null=Null("permuted", "both gradients exchanged at random in each prompt"),
    ),
)
