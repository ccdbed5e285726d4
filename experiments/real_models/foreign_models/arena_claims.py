"""The claims about ARENA's monthly problems: palindromes, first unique letters, running signs."""

import math
from dataclasses import replace

from circuitax.records.claims import at_least, at_most, near
from circuitax.records.nulls import Null
from experiments.real_models.foreign_models.claim_sources import (
    PALINDROME,
    REFERENCE_WHY,
    SIGN,
    UNIQUE,
    answered,
    closes,
    table,
)
from experiments.real_models.foreign_models.sources import REFERENCE

ARENA_CLAIMS = (
    # July
    PALINDROME.claim(
        "palindrome-loss",
        "cross-entropy at the end",
        near(0.008, 5e-4),
        printed="0.008",
        null=answered("a coin: ln 2", math.log(2)),
    ),
    PALINDROME.claim(
        "palindrome-lead",
        "lead of the right answer",
        near(7.489, 5e-4),
        printed="7.489",
        null=answered("a coin has no lead", 0.0),
    ),
    PALINDROME.claim(
        "palindrome-accuracy",
        "accuracy on unseen texts",
        near(0.997, 5e-4),
        n=5000,
        selection="the publisher's 5,000 texts, seed 43",
        printed="0.997",
        null=answered("a coin", 0.5),
    ),
    table(
        PALINDROME,
        "palindrome-mean-ablation",
        "lead with each head at its mean",
        5.1e-4,
    ),
    table(
        PALINDROME,
        "palindrome-zero-ablation",
        "lead with each head at zero, the value bias folded into b_O before",
        5.1e-4,
    ),
    replace(PALINDROME, origin="correction").claim(
        "palindrome-zero-gap",
        "zero ablation on the weights as they are also removes b_V W_O: largest difference from "
        "the printed leads, which are of folded weights, as the page's setup says and its ablation "
        "does not",
        near(0.715, 2e-3),
        REFERENCE_WHY,
        quantity="palindrome-zero-gap",
        null=answered("folding makes no difference", 0.0),
    ),
    table(
        PALINDROME,
        "palindrome-zero-unfolded",
        "lead with each head at zero, on the weights as they are",
        5.1e-4,
    ),
    table(
        PALINDROME,
        "palindrome-loss-without",
        "loss with head 0.1 at its mean, at all positions and at all but 20, and with 1.1's values "
        "at theirs",
        5.1e-4,
    ),
    table(
        PALINDROME,
        "palindrome-wrong",
        "texts answered wrong, broken only at 17 or 19, and others, and texts so broken that are "
        "answered right",
        0.0,
        why="counts",
    ),
    table(
        PALINDROME,
        "palindrome-turns",
        "head 0.0 turns to itself, and from the mirror, where all pairs are broken (17, 19 left "
        "out)",
        0.005,
        n=1000,
        selection="1,000 palindromes by the page's code, seed 42, and the same with broken pairs",
        why="printed of other random draws; five seeds give 0.370 to 0.377 and 0.543 to 0.548",
    ),
    PALINDROME.claim(
        "palindrome-looks",
        "head 1.0 looks from the end to broken positions: its attention there over that to equal "
        "ones (17, 19 and 20 left out, to which it does not look), of all texts, and the least of "
        "the seven positions of non-palindromes",
        at_least(2),
        "twice as much",
        kind="relation",
        printed="head 1.0 looks from the end token to broken positions; no number",
        null=Null("permuted", "which pairs are broken is shuffled over positions and texts"),
    ),
    table(
        PALINDROME,
        "palindrome-cosines",
        "cosines of the keys of difference vectors with the end token's query, heads 1.0 and 1.1",
        0.01,
        why="two digits; the query is averaged over texts",
    ),
    table(
        PALINDROME,
        "palindrome-direct",
        "what difference vectors add to the answer, heads 1.0 and 1.1",
        5.1e-3,
    ),
    PALINDROME.claim(
        "palindrome-blind",
        "a palindrome broken at 17 or 19 is still called one: share",
        at_least(0.99),
        "blind there",
        kind="relation",
        n=1000,
        selection="1,000 random palindromes, one pair broken",
        printed="2 of 2,500 texts, broken only at 17 or 19, answered wrong, none right",
        null=Null("permuted", "any two of the ten positions in the place of 17 and 19"),
    ),
    PALINDROME.claim(
        "palindrome-sighted",
        "broken elsewhere it is not: largest share still called one",
        at_most(0.1),
        "one in ten",
        kind="relation",
        n=1000,
        selection="1,000 random palindromes, one pair broken",
        printed="1 other of 2,500 texts answered wrong",
        null=Null("permuted", "any two of the ten positions in the place of 17 and 19"),
    ),
    PALINDROME.claim(
        "palindrome-path",
        "the path 0.0 → 1.0 says that it is none: by how much it adds more to that than the next "
        "path, in logits, on non-palindromes, and on these less palindromes, the lesser",
        at_least(1),
        "clearly the largest of nine",
        kind="relation",
        printed="head 1.0, by way of 0.0, says that it is none; no number",
        null=Null("permuted", "which texts are palindromes is shuffled"),
    ),
    closes(PALINDROME, "palindrome-closes", "nine paths and the bias"),
    # August
    UNIQUE.claim(
        "unique-loss",
        "cross-entropy",
        near(0.017, 5e-4),
        printed="0.017",
        null=answered("each of eleven answers alike: ln 11", math.log(11)),
    ),
    UNIQUE.claim(
        "unique-probability",
        "mean probability of the right letter",
        near(0.988, 5e-4),
        printed="0.988",
        null=answered("each of eleven answers alike", 1 / 11),
    ),
    UNIQUE.claim(
        "unique-least",
        "least probability of it",
        near(0.001, 5e-4),
        printed="0.001",
        null=answered("each of eleven answers alike", 1 / 11),
    ),
    UNIQUE.claim(
        "unique-accuracy",
        "accuracy on the validation set, which also chose the epoch that was kept",
        near(0.992, 5e-4),
        n=5000,
        selection="the publisher's 5,000 texts of 20 positions, seed 43",
        printed="0.992",
        null=answered("each of eleven answers alike", 1 / 11),
    ),
    UNIQUE.claim(
        "unique-adversarial",
        "?ggbbiihaggbigbigbig: share of positions answered h at 7 and 8, then a to the end",
        near(1, 0),
        "all",
        n=1,
        selection="the text that the page gives",
        printed="h from position 7, a from position 9",
        null=answered("the right answers, h from position 7 to the end", 0.0),
    ),
    UNIQUE.claim(
        "unique-copies-0.1",
        "head 0.1 looks at earlier copies of every letter but a: least attention to those, over "
        "all letters but a, less that of a",
        at_least(0.4),
        "most of it; a gets none",
        kind="relation",
        printed="head 0.1 looks at earlier copies, of all letters but a; no number",
        null=Null(
            "permuted", "attention to copies is shuffled among the heads of layer 0 and the letters"
        ),
    ),
    UNIQUE.claim(
        "unique-copies-0.2",
        "head 0.2 looks at earlier copies of a, b and g: least attention to those less the most "
        "to another letter's",
        at_least(0.1),
        "clearly more",
        kind="relation",
        printed="head 0.2 looks at earlier copies of a, b and g; no number",
        null=Null(
            "permuted", "attention to copies is shuffled among the heads of layer 0 and the letters"
        ),
    ),
    UNIQUE.claim(
        "unique-signs",
        "0.2 into a head of layer 1 mostly boosts its letters, direct and 0.1 into it mostly "
        "suppress them, with the exceptions that the page lists: least share of own logits of that "
        "sign, over the three first steps and these exceptions",
        at_least(0.8),
        "mostly, most and generally: four of five",
        n=1,
        kind="relation",
        printed="0.1: mostly negative; 0.2: most strongly positive, on a, b and g negative; "
        "direct: generally negative",
        null=Null("random", "the signs of one of the three first steps, in turn, are coins"),
    ),
    UNIQUE.claim(
        "unique-signs-0.0",
        "0.0 into a head of layer 1 mostly boosts its letters: share of ten own logits",
        at_least(0.6),
        "most: more than half of ten",
        n=1,
        kind="relation",
        printed="most of the paths from 0.0 or 0.2 strongly positive on that head's letters",
        explanation="six of ten are, as six or more of ten coins in 38 % of draws",
        null=Null("random", "the signs of the ten own logits are coins"),
    ),
    table(UNIQUE, "unique-mean-ablation", "loss with each head at its mean", 5.1e-3),
    table(UNIQUE, "unique-zero-ablation", "loss with each head at zero, b_V folded", 5.1e-3),
    *(
        table(
            UNIQUE,
            id,
            f"own logits of a to j by the path {id[7:10] if 'direct' not in id else 'direct'} into "
            f"{id[-3:]}",
            0.051,
        )
        for id in REFERENCE
        if "-into-" in id
    ),
    replace(UNIQUE, origin="correction").claim(
        "unique-misses",
        "with layer 1's reads divided by layer 0's norm scale, as the published attribution by "
        "path does, the paths miss the logits by up to",
        near(209, 0.5),
        "three digits",
        null=answered("the division makes no difference", 0.0),
    ),
    replace(UNIQUE, origin="correction").claim(
        "unique-misses-all",
        "so divided, no text's paths sum to its logits: least miss of a text",
        at_least(1),
        "a logit",
        kind="relation",
        null=Null(
            "false world",
            "each read is divided by its own norm scale, by which the paths sum to the logits",
        ),
    ),
    table(
        UNIQUE,
        "unique-detail",
        "right values of four paths to c in the first text, less their mean, positions 1, 2, 16",
        5.1e-3,
    ),
    closes(UNIQUE, "unique-closes", "with its own scale, sixteen paths and the bias"),
    # November
    table(
        SIGN,
        "sign-fit",
        "loss, and mean, median and least probability of the right sign",
        5.1e-4,
    ),
    SIGN.claim(
        "sign-accuracy",
        "accuracy on the validation set, which also chose the epoch that was kept",
        near(1, 5e-5),
        n=10_000,
        selection="the publisher's 10,000 texts of 20 positions, seed 43",
        printed="1.0000",
        null=answered("a coin between the two signs", 0.5),
    ),
    table(
        SIGN,
        "sign-silenced-centred",
        "the same without neurons, what writes to the stream centred as the page does",
        5.1e-4,
    ),
    table(SIGN, "sign-silenced", "the same without neurons, of the function in the file", 5.1e-5),
    table(
        SIGN,
        "sign-neurons-centred",
        "rise of the loss without each neuron, centred as the page does",
        5.1e-5,
    ),
    table(
        SIGN,
        "sign-neurons",
        "rise of the loss without each neuron, of the function in the file",
        5.1e-5,
    ),
    replace(SIGN, origin="correction").claim(
        "sign-moved",
        "without a norm, centring is no identity: largest change of a log-probability",
        near(8.1, 0.05),
        "two digits",
        null=answered("centring changes nothing", 0.0),
    ),
    replace(SIGN, origin="correction").claim(
        "sign-shifted",
        "and of a probability",
        near(0.073, 5e-4),
        "two digits",
        null=answered("centring changes nothing", 0.0),
    ),
    replace(SIGN, origin="correction").claim(
        "sign-two-functions",
        "the page's loss is the file's, its loss without neurons is the centred one's: smaller of "
        "both differences that this leaves",
        at_least(0.003),
        "more than rounding of three digits",
        kind="relation",
        null=Null(
            "false world",
            "one function alone gives both of the page's losses: each is taken of the function "
            "that gives it",
        ),
    ),
    table(
        SIGN,
        "sign-cosines",
        "cosines of the value direction u and the unembedding: u·pos, u·neg, neg·pos, pos·zero, "
        "neg·zero",
        5.1e-4,
    ),
    table(SIGN, "sign-singular", "singular values of W_E W_OV: file, and centred", 5.1e-3),
    SIGN.claim(
        "sign-uneven",
        "attention is even: largest difference from 1/(t + 1)",
        at_most(1e-3),
        "a tenth of a per cent",
        kind="relation",
        printed="attention is even; no number",
        null=Null(
            "random", "a head, embeddings and positions as normal as at TransformerLens's start"
        ),
    ),
    SIGN.claim(
        "sign-follows",
        "what the head writes follows the running mean: correlation",
        at_least(0.9999),
        "a line",
        kind="relation",
        printed="the head writes the running mean; no number",
        null=Null(
            "random",
            "the head attends evenly and writes a random number for each of the eleven values",
        ),
    ),
    SIGN.claim(
        "sign-fires",
        "neurons 0, 1, 3, 4 fire where the running mean is positive, 2 and 7 where it is negative: "
        "how many of the six are more active there",
        near(6, 0),
        "all",
        printed="the cummean is positive: neurons 0, 1, 3 and 4; negative: neurons 2 and 7",
        explanation="the text has the sides exchanged (E45): all six fire on the other one, as in "
        "the page's own figure 6",
        null=Null("random", "each of the six neurons fires on either side alike"),
    ),
    replace(SIGN, source=f"erratum E45 to {SIGN.source}", origin="correction").claim(
        "sign-fires-sides",
        "all six fire on the other side than the page's text says, as its figure 6 shows: least "
        "share of a neuron's mean activation on that side",
        at_least(0.95),
        "nearly all; of a unit that is nearly linear in the mean it is 0.61",
        kind="relation",
        null=Null("random", "each of the six neurons fires on either side alike"),
    ),
    closes(SIGN, "sign-closes", "head, MLP, embedding and biases"),
)
