"""Published or derived statements on the phase diagram.

The names T4-... refer to result 4 of the toy-models table in docs/acceptance.md.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import PRINTED_NUMBER, Null
from circuitax.records.papers import Paper

CELLS = Null("permuted", "the cells of the closed forms' diagrams are shuffled")
PHASE = ClaimSource(
    "Toy Models of Superposition, superposition as a phase change",
    cites=(Paper.TOY_MODELS,),
    kind="relation",
    selection="lowest of all restarts",
    origin="published",
    link=papers.TOY_MODELS,
)
REFERENCE = replace(
    PHASE,
    source="exact optimum of the reference page, n = 2, m = 1, sum loss",
    cites=(),
    origin="ours",
    link="",
)
TRAINED = replace(PHASE, selection="lowest exact loss of all seeds, in every cell")

MINIMA = (
    "Local minima: half of the networks in another region than the closed forms' have 2.5 times "
    "the least loss of their cell or more, and move the mean of nine. Four tens agree in 0.60 to "
    "0.91 of the cells, too few to tell; the best of forty in 0.99."
)

# (importance of the last feature, density): sum loss of the optimum for n = 2, m = 1.
TABLE = {
    (1.0, 1.0): 0.08325,
    (1.0, 0.5): 0.07628,
    (1.0, 0.3): 0.02931,
    (1.0, 0.1): 0.00332,
    (0.5, 0.5): 0.05208,
    (0.2, 0.3): 0.01550,
}

CLAIMS = (
    PHASE.claim(
        "T4-triple-point",
        "At r = 1 ignoring and sharing tie at p = 4/7 (closed forms)",
        near(4 / 7, 1e-6),
        "algebra",
        kind="identity",
        selection="nothing is selected",
        origin="theorem",
        link="",
    ),
    PHASE.claim(
        "T4-optimum-below",
        "The exact optimum is nowhere above the best closed form (greatest ratio over the grids)",
        at_most(1 + 1e-6),
        "the closed forms are feasible points",
        origin="theorem",
        link="",
    ),
    TRAINED.claim(
        "T4-trained-below",
        "The best network of a cell is never above the best closed form "
        "(greatest ratio over the grids)",
        at_most(1.02),
        "Adam's noise and weight decay cost about a per cent",
        origin="ours",
        link="",
        explanation="the value is far below the limit; but in four cells only three of "
        "forty networks are within it, so that forty drawn again may hold none",
        null=Null("permuted", "one seed at random in each cell in the place of the best"),
    ),
    PHASE.claim(
        "T4-regions-optimum",
        "Exact optimum and closed forms name the same region (share of cells)",
        at_least(0.85),
        "the blur around the boundaries",
        null=CELLS,
        origin="ours",
        link="",
    ),
    TRAINED.claim(
        "T4-regions-trained",
        "Trained networks, ten a cell and averaged without the worst, and closed forms name the "
        "same region (share of cells, mean of four tens)",
        at_least(0.85),
        "the blur around the boundaries",
        selection="all but the highest loss of ten seeds",
        printed="trained models and closed forms show diagrams of the same regions; no share",
        null=CELLS,
        explanation=MINIMA,
    ),
    TRAINED.claim(
        "regions-best",
        "The best of forty networks of a cell and closed forms name the same region "
        "(share of cells)",
        at_least(0.97),
        "the next cell's region is the same in 0.93 to 0.96 of cells",
        origin="ours",
        link="",
        null=Null("permuted", "the closed forms' diagrams are shifted by a cell to each side"),
    ),
    REFERENCE.claim(
        "T4-table",
        "Six optimal losses (greatest absolute difference)",
        at_most(6e-6),
        "last digit given",
        kind="number",
        null=Null("permuted", "the six losses in turn in each other's place"),
    ),
    REFERENCE.claim(
        "T4-blur",
        "At r = 1, p = 0.65, denser than 4/7, the optimum is antipodal already "
        "(interference of the last feature)",
        at_least(0.5),
        "one if antipodal, zero if not",
        null=Null("false world", "the optimum is what the closed forms say"),
    ),
    PHASE.claim(
        "T4-confused",
        "n = 3, m = 2, r = 1, p = 0.7: the optimum drops (1, 1, 1), no closed form's direction "
        "(cosine with the one dropped)",
        near(1, 0.02),
        "one if dropped exactly",
        kind="number",
        origin="ours",
        link="",
        null=Null(PRINTED_NUMBER, "the direction of one feature, 1/√3", 3**-0.5),
    ),
    PHASE.claim(
        "T4-digon-dedicated",
        "n = 3, m = 2, r = 1, p = 0.5: a digon and a dedicated feature, D = 1/2, 1/2, 1 "
        "(greatest difference)",
        at_most(0.02),
        "norms near one are not exactly one",
        kind="number",
        origin="ours",
        link="",
        null=Null("false world", "a triangle: three features of 2/3 of a dimension each"),
    ),
)
