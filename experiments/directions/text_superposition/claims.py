"""Proved, published or expected statements on directions in real models.

S0 is "Some Structures in Transformer Architectures", the project's source note.
"""

from dataclasses import replace

from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.nulls import Null

from circuitax.records.papers import Paper

DRAWS = "one model; as many random sets, and choices of rows where pairs are of a sample, as draws"
BOUND = ClaimSource(
    "Welch 1974 and the toy-models paper",
    cites=(Paper.TOY_MODELS, Paper.WELCH_1974),
    kind="identity",
    why="float32 sums",
    selection="all sets of both models, raw and centred",
    origin="theorem",
)
LAW = replace(
    BOUND,
    source="law of random directions (S0 section 7)",
    cites=(Paper.S0,),
    kind="number",
    n=8,
    why="eight draws of 4,096 rows",
    selection="all draws of the shape of SmolLM2's embedding",
)
COMMON = ClaimSource(
    "ours, on embeddings; Mu and Viswanath 2018 (All-but-the-Top) find it in word vectors",
    cites=(Paper.MU_2018,),
    kind="relation",
    n=1,
    selection="one model, all tokens",
    origin="ours",
)
OURS = ClaimSource("ours, on real weights", kind="relation", n=8, selection=DRAWS, origin="ours")
LAYERS = replace(OURS, selection=f"all layers; {DRAWS}")
FEATURES = replace(
    OURS,
    selection="one text model; all autoencoders that stayed finite, each with its own start and "
    "batches",
    opening="Features of our text model, as TopK finds them in its stream: ",
    null=Null("random", "random directions, as many, in the place of the features"),
)
SMOLLM2_FEATURES = replace(
    FEATURES,
    selection="one model; all autoencoders that stayed finite, each with its own start and batches",
    opening="Features of SmolLM2, as TopK finds them in its stream: ",
    null=Null("random", "random directions, as many, in the place of the features"),
)

CLAIMS = (
    BOUND.claim(
        "real-welch",
        "No set has a mean square overlap below the square of the Welch bound (least ratio)",
        at_least(1 - 1e-4),
    ),
    BOUND.claim(
        "real-dims-bound",
        "Dimensionalities sum to the number of dimensions at most (largest ratio)",
        at_most(1 + 1e-4),
    ),
    LAW.claim(
        "random-tail",
        "Random directions: share of pairs that overlap by more than 3/√d, over what the law says",
        near(1, 0.05),
    ),
    LAW.claim(
        "random-mean-square",
        "Random directions: d times the mean square overlap",
        near(1, 0.01),
    ),
    COMMON.claim(
        "smollm2-common",
        "Embeddings of tokens share a direction: mean cosine of two tokens of SmolLM2",
        at_least(0.05),
        "far above 0, the value of random directions",
        null=Null("random", "2,000 random directions"),
    ),
    OURS.claim(
        "smollm2-centring",
        "SmolLM2's embedding: the mean takes up much of the interference (mean square overlap as "
        "it is over that with the mean taken off)",
        at_least(1.2),
        "a fifth",
        n=1,
        selection="one model, all tokens",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "smollm2-tokens-above-random",
        "SmolLM2's embedding, centred: mean square overlap over that of random directions",
        at_least(1.2),
        "tokens with alike uses lie together",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "smollm2-tokens-tail",
        "SmolLM2's embedding, centred: share of pairs that overlap by more than 3/√d, over that of "
        "random directions",
        at_least(2),
        "twice as many",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "smollm2-tokens-largest",
        "SmolLM2's embedding, centred: some tokens are nearly one (largest overlap of 4,096)",
        at_least(0.8),
        "spellings of one word; random directions stay below 0.3",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "smollm2-tokens-dims",
        "SmolLM2's embedding as it is: dimensions in use, the sum of D_i over that of random "
        "directions",
        at_most(0.9),
        "a tenth below",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    LAYERS.claim(
        "smollm2-read-random",
        "What SmolLM2's neurons read is nearly random: mean square overlap, centred, over that of "
        "random directions (mean of layers)",
        at_most(2),
        "a factor of two",
        null=Null("false world", "neurons overlap as much as the model's tokens do"),
    ),
    LAYERS.claim(
        "smollm2-write-random",
        "What SmolLM2's neurons write is nearly random: mean square overlap, centred, over that of "
        "random directions (mean of layers)",
        at_most(2),
        "a factor of two",
        null=Null("false world", "neurons overlap as much as the model's tokens do"),
    ),
    LAYERS.claim(
        "smollm2-write-tail",
        "What SmolLM2's neurons write has a heavier tail than random directions: share of pairs "
        "above 3/√d, centred, over that of random directions (mean of layers)",
        at_least(1.2),
        "a fifth more",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "ours-tokens-above-random",
        "Our text model's embedding, centred: mean square overlap over that of random directions",
        at_least(1.05),
        "training moves it a little from its random start",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "ours-read-above-random",
        "What our text model's neurons read, centred: mean square overlap over that of random "
        "directions (least of layers)",
        at_least(1.05),
        "as for tokens",
        explanation="With their mean taken off they are spread a little more evenly than random "
        "directions. As they are, they overlap more: what neurons have in common is their mean. "
        "Not tested on a second model",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    OURS.claim(
        "ours-nearer-random",
        "Our text model's embedding is nearer to random than SmolLM2's: ratio of mean square "
        "overlap to random, centred, SmolLM2's over ours",
        at_least(1),
        "a relation",
        null=Null("random", "random directions, as many, in the place of the set"),
    ),
    BOUND.claim(
        "features-welch",
        "Features of our text model: no dictionary has a mean square overlap below the square of "
        "the Welch bound (least ratio)",
        at_least(1 - 1e-4),
        selection="all autoencoders, raw and centred",
    ),
    BOUND.claim(
        "features-dims-bound",
        "Features of our text model: dimensionalities sum to the number of dimensions at most "
        "(largest ratio)",
        at_most(1 + 1e-4),
        selection="all autoencoders, raw and centred",
    ),
    FEATURES.claim(
        "features-error",
        "what they leave of vectors not trained on, over what as many principal components leave "
        "as there are features on at a time",
        at_most(0.75),
        "a quarter less; what is on may differ from vector to vector",
        null=Null(
            "false world",
            "the features do as well as the principal components, and no better",
        ),
    ),
    FEATURES.claim(
        "features-dead",
        "share of latents that are on for no vector that was not trained on",
        at_most(0.1),
        "a tenth; few die in a small dictionary",
        null=Null("random", "as many of all latents are on for each vector, any of them alike"),
    ),
    FEATURES.claim(
        "features-above-random",
        "mean square overlap, centred, over that of as many random directions",
        at_least(1.1),
        "a tenth; the stream has larger and smaller dimensions",
    ),
    FEATURES.claim(
        "features-tail",
        "share of pairs that overlap by more than 3/√d, centred, over that of random directions",
        at_least(1.5),
        "half as many again; tokens with alike uses have features that lie together",
    ),
    FEATURES.claim(
        "features-dims",
        "dimensions in use, the sum of D_i over that of random directions",
        at_most(1),
        "a relation: interference above random leaves fewer",
    ),
    FEATURES.claim(
        "features-above-tokens",
        "mean square overlap, centred, over random, divided by the same of its embedding",
        at_least(1),
        "a relation",
    ),
    FEATURES.claim(
        "features-agree",
        "largest cosine with a feature of another seed, mean over features and other seeds, less "
        "that of random directions",
        at_least(0.2),
        "features are of the model, and not of the start",
    ),
    BOUND.claim(
        "smollm2-features-welch",
        "Features of SmolLM2: no dictionary has a mean square overlap below the square of the "
        "Welch bound (least ratio)",
        at_least(1 - 1e-4),
        selection="all autoencoders, raw and centred",
    ),
    SMOLLM2_FEATURES.claim(
        "smollm2-features-above-random",
        "mean square overlap, centred, over that of as many random directions",
        at_least(1.1),
        "a tenth, as of our text model",
    ),
    SMOLLM2_FEATURES.claim(
        "smollm2-features-tail",
        "share of pairs that overlap by more than 3/√d, centred, over that of random directions",
        at_least(1.5),
        "half as many again, as of our text model",
    ),
    SMOLLM2_FEATURES.claim(
        "smollm2-features-dims",
        "dimensions in use, the sum of D_i over that of random directions",
        at_most(1),
        "a relation, as of our text model",
    ),
)
