"""Claims on paths through the MLPs of SmolLM2, fixed before the first run.

Seen before: the sums by order of seven prompts, which gave the numbers of `paths-by-heads`,
`paths-by-mlps` and `paths-tail`, and the sources of four of them. No prompt is of those.
"""

from dataclasses import replace

from circuitax.records.claims import Claim, ClaimSource, at_least, at_most, near
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

N, FEW = 20, 4
OURS = ClaimSource(
    "goal of this project",
    kind="relation",
    n=N,
    selection="all prompts: half of prose, half of random tokens twice",
    opening="SmolLM2-135M, logit of the likeliest next token over the mean token: ",
    why="set before the first run",
    origin="ours",
)
LISTS = replace(OURS, n=FEW, selection="the first prompts of each kind, whose paths are listed")
PROVEN = replace(OURS, n=FEW, selection="prompts whose list of twenty paths is proven")
PAPER = replace(
    LISTS,
    source="Golden 2025, equivalent linear mappings",
    cites=(Paper.GOLDEN_2025,),
    selection="the first prompts of each kind, whose maps are taken apart",
    origin="published",
    link="https://arxiv.org/abs/2505.24293",
)
ANY_HEADS = Null("random", "as many heads as the score names, drawn at random")
ANY_SOURCE = Null("random", "a token of the prompt, drawn at random")
UNBOUNDED = Null(
    "false world",
    "nothing bounds what a path holds: what is evaluated proves only where it is all paths",
)
SIDES = Null("permuted", "the two removals exchanged at random in each prompt")


def finds(score: str, words: str, least: float) -> Claim:
    """The claim that a score finds the heads of the proven paths."""
    return PROVEN.claim(
        f"paths-found-{score}",
        f"share of the heads on the twenty largest paths that are among as many heads first by "
        f"{words}, mean over prompts",
        at_least(least),
        null=ANY_HEADS,
    )


CLAIMS = (
    OURS.claim(
        "dressed-paths-close",
        "largest difference between the sum of all paths from all tokens and the logit, as a "
        "share of the logit",
        at_most(1e-4),
        "single precision of 30 layers",
        kind="identity",
    ),
    OURS.claim(
        "paths-by-heads",
        "paths hardly cancel if they are split by the number of their heads, MLPs inside the "
        "stream: sum of the orders' absolute values over the logit, mean over prompts",
        at_most(1.1),
        "1.00 to 1.01 on seven other prompts",
        null=Null("mismatched", "the same, split by the number of MLPs"),
    ),
    OURS.claim(
        "paths-by-mlps",
        "split by the number of MLPs they cancel: geometric mean of that sum over the logit",
        at_least(20.0),
        "47 to 147 on four other prompts",
        null=Null("mismatched", "the same, split by the number of heads"),
    ),
    OURS.claim(
        "paths-few-heads",
        "paths through at most three heads make most of the logit: their share, mean over prompts",
        at_least(0.7),
        "0.87 to 0.99 on four other prompts",
        null=Null("permuted", "the orders of each prompt shuffled"),
    ),
    OURS.claim(
        "paths-three-tokens",
        "three tokens carry most: their share of the sum of absolute values over source tokens, "
        "mean over prompts",
        at_least(0.6),
        "more than half by a margin",
        null=Null("random", "independent normal values in the place of the tokens' sums"),
    ),
    OURS.claim(
        "paths-copied-token",
        "where the model repeats, the token that carries most is the one that comes next: share "
        "of the prompts of random tokens that it continues rightly",
        at_least(0.8),
        "a clear majority",
        n=4,
        selection="prompts of random tokens twice whose likeliest next token is the right one",
        null=ANY_SOURCE,
    ),
    LISTS.claim(
        "paths-tail",
        "the largest hundred paths of two heads hold about a quarter of the sum of absolute "
        "values of all of them: their share, mean over prompts",
        near(0.25, 0.12),
        "a quarter on one other prompt; half as much again on both sides",
        kind="number",
        null=Null("random", "independent normal values in the place of the paths"),
    ),
    LISTS.claim(
        "paths-half",
        "half of the sum of absolute values of all paths is held by no fewer than a thousand: "
        "their number, geometric mean over prompts",
        at_least(1000),
        "fifty lists of twenty: of two heads alone a hundred hold a quarter",
        null=Null("mismatched", "the same of the paths of one head"),
    ),
    LISTS.claim(
        "paths-proven",
        "share of prompts whose twenty largest paths, of heads and positions, are proven to be "
        "the largest",
        at_least(0.9),
        "the goal set for a hundred prompts",
        null=UNBOUNDED,
    ),
    LISTS.claim(
        "paths-proven-lead",
        "the same for the lead of the likeliest token over the second",
        at_least(0.9),
        "the goal set for a hundred prompts",
        null=UNBOUNDED,
    ),
    LISTS.claim(
        "paths-proven-neurons",
        "share of prompts whose twenty largest paths are proven where each ends in the head or the "
        "neuron that writes to the logit itself",
        at_least(0.5),
        "the goal set for a hundred prompts; one list had been tried, and was proven",
        null=UNBOUNDED,
    ),
    PAPER.claim(
        "linear-map-rank",
        "few directions a token: share of the sum of squared singular values that the first ten "
        "have, of the linear map from one token's embedding to the output, mean over tokens",
        at_least(0.9),
        "nearly all, in ten of 576 directions; the source has figures, and no number for a model "
        "of this size",
        explanation="the squares add up to 6.3 times the first one, in the mean, which says "
        "nothing of the rest: 77 % of the maps need more than twenty directions for nine tenths",
        printed="the spectrum of singular values is extremely low rank; a few singular vectors "
        "approximate the whole computation",
        null=Null(
            "random",
            "the model with the entries of each matrix shuffled: the most that its stable ranks, "
            "which alone are kept, leave to the first ten",
        ),
    ),
    PAPER.claim(
        "linear-map-words",
        "their words: the predicted token is among the ten tokens that one of the three first "
        "singular vectors raises or lowers most, for the source token that carries most, where "
        "that is not the prompt's first: share of prompts",
        at_least(0.5),
        "a majority; the source shows examples",
        selection="of the first prompts of each kind, whose maps are taken apart, those whose "
        "largest source is not the first token: n counts them",
        explanation="in 17 of 20 prompts it is the first token, whose map is nearly of rank one, "
        "so that it names what it carries: 17 of 17; of the other three none does",
        printed="the largest singular vectors decode to concepts related to the likeliest output "
        "token",
        null=Null("mismatched", "the predicted token of another prompt"),
    ),
    PAPER.claim(
        "linear-map-layer",
        "these words come late, and before the end: share of prompts in which this is so from a "
        "layer on between 0.5 and 0.9 of the depth, of those where it is so in the end",
        at_least(0.5),
        "a majority; the second half of the layers, the last tenth left out: of words that few "
        "layers name in any order, the last alone does",
        printed="concepts emerge clearly by layer 25 of Qwen 3 14B; the predicted token stands out "
        "in later layers",
        null=Null("permuted", "the layers before the last are shuffled in each prompt"),
    ),
    finds("gradient", "gradient times output", 0.5),
    finds("relp", "the half rule of RelP", 0.8),
    finds("direct", "direct effect", 0.5),
    finds("plain", "the paths of a ledger in which MLPs are sources", 0.5),
    OURS.claim(
        "paths-gradient-source",
        "gradient times input puts the same token first: share of prompts",
        at_least(0.5),
        "a majority",
        null=ANY_SOURCE,
    ),
    OURS.claim(
        "paths-relp-source",
        "the half rule of RelP puts the same token first: share of prompts",
        at_least(0.8),
        "a clear majority",
        null=ANY_SOURCE,
    ),
    OURS.claim(
        "paths-removed-token",
        "the token that carries most, replaced by the mean embedding, costs more than another at "
        "random: difference of the falls over the logit, mean over prompts",
        at_least(0.05),
        "a twentieth",
        null=SIDES,
    ),
    OURS.claim(
        "paths-removed-paths",
        "the ten paths of one head that raise it most, removed, cost more than ten at random of "
        "the hundred largest others: difference of the falls over the logit, mean over prompts",
        at_least(0.05),
        "a twentieth",
        null=SIDES,
    ),
    OURS.claim(
        "paths-removed-foreseen",
        "what these ten paths carry foresees the fall: correlation over prompts",
        at_least(0.5),
        "a relation: what reads the heads reacts",
        null=Null("permuted", "falls shuffled among the prompts"),
    ),
)
