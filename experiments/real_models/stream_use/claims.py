"""Claims on the use of the stream, fixed before the first run.

F19 to F21 are rows of docs/acceptance.md: statements of the framework paper that have no figure.
"""

from circuitax.records.claims import ClaimSource, at_least
from circuitax.records.nulls import Null

from circuitax.records import papers
from circuitax.records.papers import Paper

PAPER = ClaimSource(
    "framework paper",
    cites=(Paper.FRAMEWORK,),
    kind="relation",
    n=1,
    selection="the model; there is one",
    opening="SmolLM2-135M: ",
    origin="published",
    link=papers.FRAMEWORK,
)
CLAIMS = (
    PAPER.claim(
        "stream-embedding",
        "embeddings use a small part of the stream: share of the variance of tokens along the "
        "first quarter of the principal components",
        at_least(0.5),
        "half of it in a quarter; independent coordinates give 0.27",
        section="residual stream, spectra of W_E and W_U (F19)",
        explanation="its embedding is its unembedding as well, and has as few as 576 dimensions "
        "for 49,152 tokens: perhaps none are left over",
        printed="spectra decay fast: a small part of d_model is used; no number",
        null=Null("random", "an embedding of independent Gaussian coordinates"),
    ),
    PAPER.claim(
        "stream-neuron-erases",
        "some neurons erase what they read: share of neurons whose cosine of what they write with "
        "what they read is below -0.5",
        at_least(0.01),
        "some: more than one in a hundred; very negative, the paper says, where random directions "
        "have a deviation of 0.04. What opens the gate is left out: that cosine changes its sign "
        "when what is read and written is turned round, which leaves the neuron as it is",
        section="residual stream, neurons with negative cosine of input and output weights (F20)",
        printed="some neurons: very negative cosine of input and output weights; no number",
        null=Null("random", "as many random directions"),
    ),
    PAPER.claim(
        "stream-neuron-layers",
        "... in many layers: share of layers with such a cosine below -0.3",
        at_least(0.5),
        "seven deviations of random directions; the paper says some, and counts no layers",
        origin="ours",
        link="",
        null=Null(
            "random",
            "in each layer the least cosine of as many random directions",
        ),
    ),
    PAPER.claim(
        "stream-head-erases",
        "some heads erase: share of heads whose eigenvalue score of W_V W_O is below -0.5",
        at_least(0.05),
        "some: more than one in twenty; large and negative, the paper says, where random heads are "
        "within 0.07",
        section="residual stream, heads with negative eigenvalues (F21)",
        explanation="the paper's other half, that they attend primarily to the present token, is "
        "`stream-head-present`, which is undecided",
        printed="some heads have large negative OV eigenvalues; no number",
        null=Null("random", "as many heads of Gaussian weights"),
    ),
    PAPER.claim(
        "stream-head-present",
        "... and attend primarily to the present token: share of the heads with a score below -0.9 "
        "that give it half of their attention or more",
        at_least(0.05),
        "some heads: more than one in twenty; primarily, the paper says",
        section="residual stream, heads with negative eigenvalues (F21)",
        n=8,
        selection="all heads; n counts those below -0.9",
        explanation="the 21 heads below -0.9 differ: one gives it three quarters of its attention, "
        "four more a third to a half, six less than a tenth, as most other heads do",
        printed="some heads have large negative OV eigenvalues and attend primarily to the present "
        "token; no number",
        null=Null("permuted", "scores are shuffled among the heads"),
    ),
)
