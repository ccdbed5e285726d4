"""Claims on the price of an induction head, fixed before the run that is judged."""

from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import PRINTED_NUMBER, Null

LAW = "the most likely power law of all trials at shares above 0, censored ones as such"
OURS = ClaimSource(
    "circuitax, on the default corpus",
    kind="relation",
    n=5,
    selection="all seeds that stayed finite; each its own initialisation and windows, the same at "
    "every share",
    origin="ours",
    null=Null(
        "permuted",
        "trainings are shuffled among the shares of windows that repeat",
    ),
)
CLAIMS = (
    OURS.claim(
        "price-all-repeat",
        "Where every window repeats, a prefix-matching head forms: share of seeds whose best head "
        "reaches the threshold",
        at_least(0.5),
        "95 % interval of a proportion; 5 of 5 give a lower end of 0.57",
    ),
    OURS.claim(
        "price-plain-none",
        "On plain text none forms within this training: share of seeds",
        at_most(0.5),
        "95 % interval of a proportion; 0 of 5 give an upper end of 0.43",
    ),
    OURS.claim(
        "price-exponent",
        "What counts is the number of repeated windows seen, so that a text with half as many "
        "takes twice the tokens: exponent of tokens to onset against the share",
        near(1, 0.25),
        "constant number of repeated windows; a head that forgets between them would make it "
        "larger, one that text prepares for smaller",
        selection=LAW,
        explanation="Seeds are of two kinds. With 40 and 25 % of the windows repeating, three and "
        "two of five have a head by 1.2 million tokens, the others none by 20 million, and the law "
        "takes these for very late ones. Of the trainings that formed a head the exponent is 1.2 "
        "[1.1, 1.8]. What keeps the others from it was not tested",
        null=Null(PRINTED_NUMBER, "the share does not matter", 0.0),
    ),
    OURS.claim(
        "price-plain-text",
        "Plain text, by its own share of tokens in repeats of the shortest period or longer, would "
        "take more tokens than the 12 million by which longer trainings on it formed no head: "
        "the law's millions of tokens",
        at_least(12),
        "no head was there by 12 million tokens of this corpus in wider models",
        selection=LAW,
        null=Null(
            "false world",
            "the share does not matter, so that plain text takes what repeats take",
        ),
    ),
)
