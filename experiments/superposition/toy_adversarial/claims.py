"""Published or proved statements on attacks on toy models."""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, between
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

RELATION = "a relation"
DENSITIES = Null("permuted", "the densities are shuffled within each seed")
STRENGTHS = Null("permuted", "the strengths of attacks in training are shuffled within each seed")
PAPER = ClaimSource(
    "Toy Models of Superposition, relationship to adversarial robustness",
    cites=(Paper.TOY_MODELS,),
    kind="relation",
    selection="all seeds that stayed finite",
    n=8,
    why=RELATION,
    origin="published",
    link=papers.TOY_MODELS,
)
OURS = replace(PAPER, source="ours, on the models of the paper", cites=(), origin="ours", link="")

CLAIMS = (
    PAPER.claim(
        "adversarial-rise",
        "Vulnerability rises more than threefold from dense to sparse features "
        "(sparsest over densest cell, geometric mean of seeds)",
        at_least(3),
        "the printed bound; the paper gives no density at which to compare a size",
        printed="a rise of more than three times",
        null=DENSITIES,
    ),
    OURS.claim(
        "adversarial-tracks",
        "Vulnerability follows the number of features per dimension at equal density too (rank "
        "correlation over seeds with those of at least half the greatest norm, mean of densities)",
        at_least(0.2),
        "more than chance, which has 0.1; the paper plots both over densities, where any two "
        "curves that rise have a correlation near 1",
        null=Null("permuted", "features per dimension are shuffled among the seeds of a density"),
        explanation="The three densest of ten densities have -0.30 to -0.08, and the others 0.48 "
        "to 0.95.",
    ),
    PAPER.claim(
        "adversarial-gradient-fails",
        "At extreme sparsity an attack by gradient fails: added loss over that of the analytic "
        "attack, sparsest cell",
        at_most(0.5),
        "failing means less than half of what is possible; absent where fewer than half of the "
        "inputs have no gradient, since nothing is masked there",
        printed="gradient attacks fail at extreme sparsity, where gradients are masked; no number",
        null=DENSITIES,
    ),
    PAPER.claim(
        "adversarial-training",
        "Training against the attack reduces superposition: features of at least half the greatest "
        "norm at 80 % of the input's norm over those without",
        at_most(0.75),
        "a clear reduction, of which features with a direction count and not how long they are",
        null=STRENGTHS,
        printed="training against the analytic attack reduces superposition; 80 % of the input "
        "norm removes it",
    ),
    PAPER.claim(
        "adversarial-training-removes",
        "Attacks of 80 % of the input's norm in training remove superposition: features of at "
        "least half the greatest norm per dimension",
        at_most(1.1),
        "one feature a dimension, and a tenth",
        printed="attacks of 80 % of the input norm remove superposition fully",
        null=Null("false world", "training without attacks, in which superposition stays"),
        explanation="the limit is inside of the interval of 64 seeds, as it nearly was of 32 "
        "others; one feature a dimension, which is printed, is not",
    ),
    OURS.claim(
        "adversarial-training-shrinks",
        "Training against the attack shortens features: sum of squared norms at 80 % of the "
        "input's norm over that without",
        at_most(0.75),
        "a clear reduction; it is how the paper counts features per dimension elsewhere",
        null=STRENGTHS,
    ),
    OURS.claim(
        "adversarial-dense",
        "Dense features: the model is no more vulnerable than one without superposition",
        between(0.9, 1.1),
        "small off-diagonal weights and a finite batch",
        null=DENSITIES,
    ),
    OURS.claim(
        "adversarial-masked",
        "The share of inputs without any gradient, sparsest less densest cell",
        at_least(0.1),
        "a visible difference",
        null=DENSITIES,
    ),
    replace(OURS, source="ours: a ReLU does not stretch", origin="theorem").claim(
        "adversarial-bound",
        "No attack exceeds (sqrt(error) + strength |W^T W|)^2 (greatest ratio over all inputs)",
        at_most(1 + 1e-4),
        "float32",
        kind="identity",
        n=1,
    ),
)
