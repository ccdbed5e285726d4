"""What jl_capacity settles, fixed before its first run."""

from circuitax.records.claims import Claim, at_least, at_most, between, near

CLAIMS = (
    Claim(
        id="jl-random-exponent", source="S0 section 7", quantity="jl-random-exponent", n=240,
        statement="Exponentially many directions are almost orthogonal: slope of ln N against d "
        "for random directions at ε = 0.3", expected=near(0.0251, 0.0025),
        why="the law gives 0.0251 over d = 50 to 200 (ε²/4 = 0.0225, −ln(1−ε²)/4 = 0.0236 as d "
        "grows); 240 sequences give the slope to 0.001", selection="all sequences",
    ),
    Claim(
        id="jl-random-capacity", source="circuitax", quantity="jl-random-capacity", n=240,
        statement="Median size before the first pair beyond ε, over the birthday law's: "
        "mean over d",
        expected=between(0.85, 1.15), why="medians of 40 have an error of about 10 %",
    ),
    Claim(
        id="jl-greedy-exponent", source="Gilbert 1952, Varshamov 1957", n=24, kind="shape",
        quantity="jl-greedy-exponent",
        statement="Greedy packings grow at least like exp(d ε²/2): slope of ln N against d",
        expected=at_least(0.045), why="the exponent is a lower bound as d grows",
    ),
    Claim(
        id="jl-optimised-gain", source="circuitax", quantity="jl-optimised-gain", kind="shape", n=3,
        statement="Gradient-optimised packings are larger than greedy ones: least ratio over "
        "common d",
        expected=at_least(1), why="a relation",
    ),
    Claim(
        id="jl-packing-bounds", source="Welch 1974, Levenshtein 1982", quantity="jl-packing-bounds",
        kind="identity", statement="No packing found exceeds the bounds: largest share of one",
        expected=at_most(1), why="theorems",
    ),
    Claim(
        id="jl-learned-signed", source="S0 section 7", quantity="jl-learned-signed", kind="shape",
        statement="Trained toy models place features better than random weights: share of the way "
        "from random to optimal in the largest cosine, over sizes", expected=at_least(0.5), n=12,
        why="more than half of the way; a ReLU model pays for positive overlaps only",
        selection="all seeds; features of norm at least 1/2",
    ),
    Claim(
        id="jl-learned-welch", source="toy-models paper, geometry", n=12,
        quantity="jl-learned-welch",
        statement="Trained features are nearly a tight frame: mean squared overlap over Welch's "
        "bound at the number of features represented", expected=between(1, 1.5), kind="shape",
        why="random directions have 1.3 to 1.4 at N = 4 m",
        selection="all seeds; features of norm at least 1/2",
    ),
    Claim(
        id="jl-decoding", source="S0 section 7, Example 26", quantity="jl-decoding", n=500,
        statement="Threshold decoding of k active features in superposition fails as Gaussian "
        "crosstalk predicts: largest gap of failure rates over k", expected=at_most(
            0.12, whole_interval=False), why="errors are not quite independent; 500 trials: 0.02",
    ),
    Claim(
        id="jl-decoding-reach", source="S0 section 7", quantity="jl-decoding-reach", kind="shape",
        statement="Sparse features are recovered far beyond what worst-case coherence guarantees: "
        "largest k decoded half of the time over the guaranteed k", expected=at_least(2), n=500,
        why="m/(8 ln N) against 1/(2 μ)",
    ),
)  # fmt: skip
