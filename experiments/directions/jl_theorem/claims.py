"""Claims on Theorem 27 and Corollary 28, and their measurement from the record.

S0 is "Some Structures in Transformer Architectures", the project's source note; E8, E9 and E10 are
rows of docs/errata.md. A map takes N points from n dimensions to m and should keep the squared
distances of all pairs within 1 ± ε.
"""

import numpy as np

from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.estimate import Estimate, exact, proportion_estimate, share_estimate
from circuitax.records.measured import Measured
from circuitax.records.nulls import PRINTED_NUMBER, Null, Nulls
from circuitax.records.papers import Paper
from circuitax.records.record import Record

MAPS = "every map counts; a map fails if any pair does"
CLOSED = "closed form, nothing is selected"
THEOREM = ClaimSource("S0 Theorem 27", cites=(Paper.S0,), n=100, selection=MAPS, origin="theorem")
ONE_SIDED = ClaimSource(
    "erratum E8 to S0 Theorem 27", cites=(Paper.S0,), n=5000, origin="correction"
)
COROLLARY = ClaimSource(
    "S0 Corollary 28",
    cites=(Paper.S0,),
    kind="identity",
    why="true by algebra (E10)",
    origin="theorem",
)
LIMITS = ClaimSource(
    "erratum E8 to S0 Corollary 28", cites=(Paper.S0,), selection=CLOSED, origin="correction"
)
HYPOTHESIS = ClaimSource(
    "erratum E10 to S0 Corollary 28", cites=(Paper.S0,), selection=CLOSED, origin="correction"
)
CLAIMS = (
    THEOREM.claim(
        "thm27-statement",
        "Entries ±1/√m with m = C ln N/ε², C = 2/(1/4 − ε/6), break the statement's bounds "
        "1 ± ε for some pair: share of maps",
        at_most(0.05),
        "the union bound says below 1, the exact Gaussian tail below 1e-3; 100 maps "
        "without a failure have an upper limit of 0.037",
    ),
    THEOREM.claim(
        "thm27-proof",
        "The proof's map ±√((1+ε)/m) at its own m = 8/(1/4 − ε/12) ln N/ε² breaks the "
        "bounds proved, [1, (1+ε)²], for some pair: share of maps",
        at_most(0.05),
        "as for the statement",
    ),
    ONE_SIDED.claim(
        "thm27-E8-maps",
        "The proof's map breaks the printed statement for some pair: share of maps",
        at_least(0.95),
        "about half of all pairs break it",
        selection=MAPS,
        n=100,
        null=Null(
            "false world",
            "the proof's map is held against the bounds that the proof has",
        ),
    ),
    ONE_SIDED.claim(
        "thm27-E8-upper",
        "One pair exceeds the printed 1 + ε under the proof's map: share of maps",
        near(0.487, 0.03),
        "P(χ²_m > m) = 0.487 at m = 200; four standard errors at 5000 maps",
        null=Null(PRINTED_NUMBER, "no pair does, as printed", 0.0),
    ),
    ONE_SIDED.claim(
        "thm27-E8-lower",
        "One pair falls below the proof's bound 1 under ±1/√m: share of maps",
        near(0.513, 0.03),
        "1 − P(χ²_m > m) at m = 200",
        null=Null(PRINTED_NUMBER, "no pair does, as the proof has it", 0.0),
    ),
    ClaimSource("erratum E9 to S0 Theorem 27", cites=(Paper.S0,), origin="correction").claim(
        "thm27-E9",
        "Of the failures of one pair at β = 0.15, the share that the inequality printed "
        "without absolute value covers",
        near(0.541, 0.08),
        "exact law at m = 200; four standard errors at 650 failures",
        n=300,
        null=Null(PRINTED_NUMBER, "all of them, as printed", 1.0),
    ),
    COROLLARY.claim(
        "cor28-inner",
        "Pairs with |⟨f(x),f(y)⟩ − ⟨x,y⟩| > 3ε where f keeps the unit points and 0 within "
        "1 ± ε: number",
        near(0, 0),
    ),
    COROLLARY.claim(
        "cor28-cosine",
        "Pairs with |cos θ_f − cos θ| > 4ε/(1−ε) under the same hypothesis: number",
        near(0, 0),
    ),
    LIMITS.claim(
        "cor28-E8-inner",
        "A map within the proof's bounds at ε = 0.1 moves an inner product of unit vectors "
        "by, in units of the printed 3ε",
        near(1.157, 0.001),
        "explicit map: 2 − 2/1.21 over 0.3",
        null=Null(PRINTED_NUMBER, "3ε, the most that is printed", 1.0),
    ),
    LIMITS.claim(
        "cor28-E8-rescaled",
        "The same map divided by √(1+ε), in units of 3ε",
        at_most(1),
        "it then keeps the statement's bounds",
        null=Null("false world", "the map is not rescaled"),
    ),
    HYPOTHESIS.claim(
        "cor28-E10-without-zero",
        "Without 0 in Z, with every distance in Z kept exactly, the cosine moves by",
        near(1, 1e-09),
        "explicit map",
        null=Null(PRINTED_NUMBER, "not at all: every distance is kept", 0.0),
    ),
    HYPOTHESIS.claim(
        "cor28-E10-unequal-norms",
        "With 0 in Z, norms 15 : 1 and ε = 0.1, the cosine moves by (printed bound 0.444)",
        near(0.75, 0.005),
        "explicit map; two digits given",
        null=Null(PRINTED_NUMBER, "the printed bound", 0.444),
    ),
    ClaimSource("classical", origin="theorem").claim(
        "jl-gaussian-law",
        "One pair under Gaussian maps: p-value of Kolmogorov–Smirnov against χ²_m/m",
        at_least(0.001),
        "false-alarm rate 1e-3",
        selection="one pair, independent maps",
        n=5000,
    ),
)


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    eps, m = data.attrs["pair_epsilon"], data.attrs["law_dim"]
    signs, proof = data.ratio.sel(kind="signs").values, data.ratio.sel(kind="proof").values
    missed = signs[abs(signs - 1) > eps / 2]
    measured = {
        "thm27-statement": _failing(record, "signs", "statement"),
        "thm27-proof": _failing(record, "proof", "proof"),
        "thm27-E8-maps": _failing(record, "proof", "statement"),
        "thm27-E8-upper": share_estimate(proof > 1 + eps),
        "thm27-E8-lower": share_estimate(signs < 1),
        "thm27-E9": proportion_estimate((missed > 1).sum(), max(missed.size, 1)),
        "cor28-inner": exact(data.inner_beyond.sum(), data.sizes["map"]),
        "cor28-cosine": exact(data.cosine_beyond.sum(), data.sizes["map"]),
        "jl-gaussian-law": exact(
            _fit(data.gaussian_ratio.values, m), data.sizes["pair_map"]
        )._replace(method="p-value, no interval"),
    }
    examples = {
        f"cor28-{name}": exact(data.moved.sel(example=name)) for name in data.example.values
    }
    return Measured(measured | examples, {})


def nulls(record: Record) -> Nulls:
    """The proof's map against its own bounds, and as it is where it would be rescaled."""
    moved = record.data.moved.sel(example="E8-inner")
    return {
        "false world": {
            "thm27-E8-maps": [_failing(record, "proof", "proof")],
            "cor28-E8-rescaled": [exact(moved)],
        }
    }


def _failing(record: Record, kind: str, bound: str) -> Estimate:
    """Share of the maps of a kind that break a bound for some pair."""
    fails = record.data.fails.sel(kind=kind, bound=bound)
    return share_estimate(fails, method="exact")


def _fit(ratio: np.ndarray, m: int) -> float:
    """The p-value of Kolmogorov and Smirnov against the exact law of Gaussian maps, χ²_m / m."""
    from scipy import stats  # costs over a second: only when it is needed

    return float(stats.kstest(m * ratio, stats.chi2(m).cdf).pvalue)
