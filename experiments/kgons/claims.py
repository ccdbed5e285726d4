"""What is published of the k-gons, and how the record settles it.

The names T9-... refer to result 9 of the toy-models table in docs/acceptance.md.
"""

import numpy as np

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_most, near
from circuitax.records.estimate import exact
from circuitax.records.measured import Measured
from circuitax.records.record import Record

PAPER = ClaimSource(
    "Chen et al. 2023 (arXiv 2310.06301), table of k-gons",
    selection="closed form",
    origin="published",
    link=papers.PHASES,
)
THOUSANDTH = "the acceptance table asks for 1e-3"
DIGITS = "last digit given"

# k: norm l*, bias b*, L at c = k.
TABLE = {4: (1.0, 0.0, 0.0), 5: (1.17046, -0.28230, 0.01583), 6: (1.32053, -0.61814, 0.04819)}
# (k, c, features left out that have a positive bias): L.
LEFT_OUT = {
    (4, 5, 0): 0.06667,
    (4, 5, 1): 0.05667,
    (4, 6, 0): 0.11111,
    (4, 6, 1): 0.10417,
    (5, 6, 0): 0.06874,
}

CLAIMS = (
    PAPER.claim(
        "T9-norm",
        "Norms l* of the 4-, 5- and 6-gon (greatest difference)",
        at_most(1e-3),
        THOUSANDTH,
        printed="1.0, 1.17046 and 1.32053",
    ),
    PAPER.claim(
        "T9-bias",
        "Biases b* of the 4-, 5- and 6-gon (greatest difference)",
        at_most(1e-3),
        THOUSANDTH,
        printed="0, -0.28230 and -0.61814",
    ),
    PAPER.claim(
        "T9-potential",
        "L of the k-gon of its own k features, k = 4, 5, 6 (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="0, 0.01583 and 0.04819",
    ),
    PAPER.claim(
        "T9-dead",
        "L(4,5), L(4+,5), L(4,6), L(4+,6), L(5,6), with features left out (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="0.06667, 0.05667, 0.11111, 0.10417 and 0.06874",
    ),
    ClaimSource("reference page, one-hot limit", origin="ours").claim(
        "T9-hexagon",
        "With six features on one-hot data the hexagon is the lowest of the k-gons (its k)",
        near(6, 0),
        "a count",
        kind="shape",
        selection="lowest potential, one dead feature with positive bias allowed",
    ),
)


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data, potential = record.data, record.data.potential
    printed = data.sel(k=list(TABLE))
    norm, bias, own = np.array(list(TABLE.values())).T
    found = [potential.sel(k=k, n_features=k, positive=0) for k in TABLE]
    left_out = [potential.sel(k=k, n_features=c, positive=n) for k, c, n in LEFT_OUT]
    of_six = potential.sel(k=list(TABLE), n_features=6).min("positive")
    measured = {
        "T9-norm": np.abs(printed.norm - norm).max(),
        "T9-bias": np.abs(printed.bias - bias).max(),
        "T9-potential": np.abs(np.array(found) - own).max(),
        "T9-dead": np.abs(np.array(left_out) - list(LEFT_OUT.values())).max(),
        "T9-hexagon": of_six.idxmin("k"),
    }
    return Measured({name: exact(value) for name, value in measured.items()}, {})
