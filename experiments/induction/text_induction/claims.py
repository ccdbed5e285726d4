"""Claims on induction on real text, fixed before the run that is judged."""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

PAPER = ClaimSource(
    "induction-heads paper",
    cites=(Paper.INDUCTION,),
    kind="relation",
    n=8,
    selection="all seeds that stayed finite; each its own data",
    origin="published",
    link=papers.INDUCTION,
)
OURS = replace(PAPER, source="circuitax, on the default corpus", cites=(), origin="ours", link="")
PILOTS = "; threshold from pilots with another root key"
UNIFORM = f"uniform attention gives about 0.03{PILOTS}"

SIDES = Null("permuted", "the two sides of the difference are exchanged at random in each seed")

CLAIMS = (
    PAPER.claim(
        "text-induction-primed",
        "Two layers that begin with repeated windows and go on with plain text end with a "
        "prefix-matching head (mean score of the best head)",
        at_least(0.2),
        f"a tenth is already far above uniform attention{PILOTS}",
        section="argument 1",
        origin="ours",
        link="",
        null=Null("untrained", "the same heads before training"),
    ),
    OURS.claim(
        "text-induction-plain",
        "Two layers trained on 13 million tokens of plain text form an induction head (mean prefix "
        "score of the best head)",
        at_least(0.4),
        "the score from which a head counts as an induction head in all experiments; the "
        "induction-heads paper's window is at 1 to 3 billion tokens",
        explanation="none does within 13 million tokens, windows of 64 and a vocabulary of 512; "
        "nor does plain text keep all of a head that a primer has made (`text-induction-stays`), "
        "so that more of the same text may not be the remedy",
        null=Null("untrained", "heads before training"),
    ),
    PAPER.claim(
        "text-induction-one-layer",
        "One layer has none, with the same primer",
        at_most(0.1),
        UNIFORM,
        section="argument 1 (O3)",
        printed="no such head in one layer",
        null=Null("mismatched", "two layers with the same primer"),
    ),
    OURS.claim(
        "text-induction-stays",
        "Plain text keeps the head: best prefix score at the end over that at the end of the "
        "primer",
        at_least(0.4),
        f"a relation to none at all{PILOTS}",
        explanation="it fades: a million tokens of plain text left 0.77 [0.75, 0.78] of it (quick "
        "scale), twelve million half as much",
        null=Null("mismatched", "models that never had the head, over the end of the primer"),
    ),
    PAPER.claim(
        "text-induction-repeats",
        "On held-out text, where a pair of tokens comes again, primed models predict it better "
        "than plain ones, and by more than they do other tokens (loss saved on such pairs, or how "
        "much more is saved there than on other tokens, whichever is less, nats)",
        at_least(0.5),
        f"a relation{PILOTS}",
        section="argument 4 (copying on natural text, O6)",
        printed="repeated strings become cheaper; no number",
        null=Null(
            "mismatched",
            "one layer with the same primer in the place of the primed two: at the end, at the end "
            "of the primer, and at the end of the primer beside plain models at the end",
        ),
    ),
    OURS.claim(
        "text-induction-ablation",
        "Removing the best prefix-matching head of a primed model, whose score of about 0.25 makes "
        "it no induction head, under fixed patterns, costs repeated pairs more than other tokens: "
        "difference, nats",
        at_least(0.3),
        f"a relation{PILOTS}; how much of all in-context learning that is is not measured",
        null=SIDES,
    ),
)
