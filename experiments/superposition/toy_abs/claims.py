"""Published statements on computation in superposition.

The names T10-... refer to result 10 of the toy-models table in docs/acceptance.md.
"""

from dataclasses import replace

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, between, near
from circuitax.records.nulls import Null
from circuitax.records.papers import Paper

MIXED = Null(
    "random", "as many mixed neurons, of normal weights, and the best feature of each served wholly"
)
PAPER = ClaimSource(
    "Toy Models of Superposition, computation in superposition",
    cites=(Paper.TOY_MODELS,),
    kind="relation",
    selection="all seeds that stayed finite",
    n=8,
    origin="published",
    link=papers.TOY_MODELS,
)
NEURONS = Null("random", "as many neurons of normal input weights, all of them in use")
PICKED = Null(
    "random",
    "ratios spread evenly, from the 1.5 at which motifs are picked to the one that 95 % of those "
    "found stay below",
)
FACTOR = "1.5 is the ratio from which on motifs are picked"
BEST = replace(PAPER, selection="lowest loss of the seeds")
HIGHLY = replace(
    PAPER,
    printed="at density 0.03 a small number of neurons, of unimportant features, is highly "
    "polysemantic",
    selection="neurons in use of the network of lowest loss; the paper shows one",
    n=4,
)
OURS = replace(PAPER, source="ours, on the models of the paper", cites=(), origin="ours", link="")

CLAIMS = (
    BEST.claim(
        "T10-neurons",
        "n = 3, m = 6: every feature has one neuron ReLU(x) and one ReLU(-x) (features of three; "
        "neurons count with at least 0.9 of their squared weights, in and out, in one feature)",
        near(3, 0),
        "a count",
        kind="number",
        printed="two neurons a feature, ReLU(x) and ReLU(-x)",
        null=Null(
            "false world",
            "the entries of both matrices are shuffled in every network; or its neurons also read "
            "another feature as strongly, or all others by half, or write all others as strongly; "
            "or two neurons do all",
        ),
    ),
    BEST.claim(
        "T10-gain",
        "n = 3, m = 6: input times output weight is 1 for each of the six neurons (greatest miss)",
        at_most(0.03),
        "Adam's noise",
        kind="number",
        origin="theorem",
        link="",
    ),
    OURS.claim(
        "T10-seeds",
        "n = 3, m = 6: share of seeds that find two neurons for every feature",
        at_least(0.05),
        "some do; six neurons for six sides leave no spare one",
        null=Null(
            "random",
            "each of the six neurons takes one of the six sides of features alike",
        ),
    ),
    PAPER.claim(
        "abs-mono-p1",
        "p = 1: neurons are monosemantic (share of seeds whose neurons in use all are)",
        at_least(0.75),
        "three seeds of four",
        printed="density 1: in the dense regime all neurons are monosemantic",
        null=NEURONS,
    ),
    PAPER.claim(
        "abs-mono-p0.3",
        "p = 0.3: neurons are monosemantic (share)",
        at_least(0.95),
        "nearly all: one neuron of twenty may be mixed",
        printed="density 0.3: neurons continue to be monosemantic to moderate sparsity",
        null=Null("mismatched", "the density beside, 0.1"),
        explanation="The paper says all of p = 1 alone; as it is asked there, all neurons in use, "
        "26 of 56 seeds have it, which would fail.",
    ),
    PAPER.claim(
        "abs-mono-p0.1",
        "p = 0.1: a few neurons are polysemantic (share of monosemantic neurons)",
        between(0.75, 0.95),
        "a few are a quarter at most, and clearly not none",
        printed="density 0.1: a few slightly polysemantic neurons",
        null=Null("mismatched", "the densities beside it, 0.3 and 0.03"),
        explanation="How slightly they are is not asked.",
    ),
    PAPER.claim(
        "abs-mono-falls",
        "The number of polysemantic neurons grows from p = 0.03 to p = 0.01 (those in use at 0.01 "
        "less those at 0.03, over all neurons of the network)",
        at_least(0.1),
        "a visible difference: four of 40",
        printed="density 0.01, after 0.03: the number of polysemantic neurons grows",
        null=Null("permuted", "both densities exchanged at random in each seed"),
        explanation="It grows by 3.4 of 40 neurons in the mean. Their share of the neurons in use "
        "grows by 0.31, also because nearly all monosemantic ones vanish.",
    ),
    HIGHLY.claim(
        "abs-mono-p0.03",
        "p = 0.03: a small number of neurons is highly polysemantic (share whose squared input "
        "weights spread over three features or more)",
        between(0.05, 0.5),
        "some, and fewer than half",
        null=Null("mismatched", "the densities beside, 0.1 and 0.01"),
        explanation="Two of 40 are. Seven spread over two features or more, as three of 40 do at "
        "p = 0.1, where the paper finds a few slightly polysemantic neurons.",
    ),
    HIGHLY.claim(
        "abs-mono-unimportant",
        "p = 0.03: highly polysemantic neurons represent features of low importance (mean number "
        "of their main feature, the most important first, less that of the other neurons)",
        at_least(0),
        "a relation",
        null=Null("permuted", "main features are shuffled among the neurons"),
    ),
    PAPER.claim(
        "abs-mono-p0.001",
        "p = 0.001: all neurons are polysemantic (share of monosemantic ones)",
        at_most(0.1),
        "one or two of twenty may look pure",
        printed="all neurons are polysemantic at density 0.001",
        null=NEURONS,
        explanation="Features are so rare that 65 of 2,240 neurons are in use at the end, in 30 of "
        "56 networks; neurons at random have several features too.",
    ),
    OURS.claim(
        "abs-beyond",
        "p = 0.03: more features are computed than there are pairs of neurons (features whose "
        "unexplained share is below one half, over n_hidden / 2)",
        at_least(1),
        "without superposition it is at most 1",
        explanation="Importances fall so steeply that the twenty-first of 100 features (0.8^20) is "
        "worth a hundredth of the first: neurons are shared, and what is gained is not counted "
        "here.",
        null=Null("untrained", "no feature is computed before training"),
    ),
    replace(
        OURS,
        source="ours, at the density of ARENA's exercise; the paper gives none",
        cites=(Paper.ARENA,),
    ).claim(
        "abs-motif",
        "n = 20, m = 10, p = 0.5: the asymmetric motif with its inhibiting neurons occurs in "
        "trained models (share of seeds)",
        at_least(0.1),
        "it is the paper's example; more than one seed in ten",
        explanation="None of 64 networks has it at p = 0.5, where neurons have one feature each; "
        "63 of 64 have it at p = 0.1.",
        null=MIXED,
    ),
    OURS.claim(
        "abs-motif-sparse",
        "n = 20, m = 10, p = 0.1: the asymmetric motif occurs (share of seeds)",
        at_least(0.3),
        "in three of four of twelve networks of a trial with other seeds",
        explanation="63 of 64 networks have it, and of random ones with as many mixed neurons "
        "three in eight: the limit is below what chance reaches, and what was measured is not",
        null=MIXED,
    ),
    PAPER.claim(
        "abs-motif-in",
        "Input weights of the motif are 2 and -1/2: the factor by which their ratio misses 4, to "
        "either side (geometric mean over the motifs of a network, and over networks)",
        at_most(1.5),
        FACTOR,
        kind="number",
        printed="2 and -1/2",
        null=PICKED,
        n=1,
        explanation="Ratios of no preferred value, spread evenly from 1.5 to 6.1, miss 4 by 1.38. "
        "Those found have the geometric mean 3.52 [3.33, 3.72], which excludes 4.",
    ),
    PAPER.claim(
        "abs-motif-out",
        "Output weights of the motif are 1/2 and 2: the factor by which their ratio misses 4, to "
        "either side (geometric mean over the motifs of a network, and over networks)",
        at_most(1.5),
        FACTOR,
        kind="number",
        printed="1/2 and 2",
        null=PICKED,
        n=1,
    ),
)
