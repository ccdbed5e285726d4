"""Published statements on the k-gons, and their measurement from the record.

The names T9-... refer to result 9 of the toy-models table in docs/acceptance.md.
"""

import numpy as np
import xarray as xr

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.estimate import exact, share_estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record
from experiments.superposition.kgons.plateaus import kgon_losses, nearest_kgon, plateaus

PAPER = ClaimSource(
    "Chen et al. 2023 (arXiv 2310.06301), table of k-gons",
    selection="closed form",
    origin="published",
    link=papers.PHASES,
)
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

RESTING = "all networks that rest at all; each has its own start and data"
PLATEAUS = "plateaus of training by SGD lie at losses of k-gons, the higher ones first"

# A curvature counts as 0 below this; the least others are above 0.02.
LEVEL = 1e-6

CLAIMS = (
    PAPER.claim(
        "T9-norm",
        "Norms l* of the 4-, 5- and 6-gon (greatest difference)",
        at_most(6e-6),
        DIGITS,
        printed="1.0, 1.17046 and 1.32053",
    ),
    PAPER.claim(
        "T9-bias",
        "Biases b* of the 4-, 5- and 6-gon (greatest difference)",
        at_most(6e-6),
        DIGITS,
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
    PAPER.claim(
        "T9-critical",
        "The k-gon of its own k features is a critical point (largest entry of the gradient)",
        at_most(1e-9),
        "rounding in float64",
        kind="identity",
        printed="the regular k-gons are critical points of the potential",
    ),
    PAPER.claim(
        "T9-curvatures",
        "Twice the local learning coefficient, 3k - 1, is the number of directions in which the "
        "loss curves up at the k-gon, k = 5 to 8; it curves down in none (greatest difference)",
        near(0, 0),
        "a count",
        printed="learning coefficients of 7, 8.5, 10 and 11.5 for k = 5, 6, 7 and 8",
    ),
    PAPER.claim(
        "T9-plateaus",
        "Training comes to rest at losses of k-gons only (share of networks of six features all of "
        "whose plateaus lie within 2 % of one; nearly all of these are where training ends)",
        at_least(0.8),
        "most; 16 networks at five times the rate were looked at beforehand",
        kind="shape",
        n=16,
        selection=RESTING,
        printed=PLATEAUS,
    ),
    PAPER.claim(
        "T9-higher-first",
        "Training rests on the way, at a higher loss first (share of networks of six features with "
        "a plateau at a k-gon of fewer vertices before their last)",
        at_least(0.5),
        "most",
        kind="shape",
        n=16,
        selection=RESTING,
        printed=PLATEAUS,
        explanation="From a start of small weights the first k-gon reached, a pentagon or a "
        "square, is kept for the 10,000 steps. A published example starts at a 2-gon, has a finite "
        "set of samples, and trains longer: not tested.",
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
    settled = {name: exact(value) for name, value in measured.items()}
    settled["T9-critical"] = exact(data.slope.max())
    settled["T9-curvatures"] = exact(_miscounted(data))
    resting = _resting(data, int(record.notes["trained"]))
    if not resting:
        nowhere = "no network rests anywhere"
        return Measured(settled, {"T9-plateaus": nowhere, "T9-higher-first": nowhere})
    only = [bool((at >= 0).all()) for at in resting]
    higher = [bool(((at[:-1] >= 0) & (at[:-1] < at[-1])).any()) for at in resting]
    settled |= {"T9-plateaus": share_estimate(only), "T9-higher-first": share_estimate(higher)}
    return Measured(settled, {})


def _miscounted(data: xr.Dataset) -> int:
    """Error of the printed number of curvatures above 0, or of those below."""
    wrong = 0
    for k in data.k.values[1:]:  # the 4-gon has drives of exactly 0, where curvatures jump
        curvatures = data.curvature.sel(k=k).values
        up, down = (int((sign * curvatures > LEVEL).sum()) for sign in (1, -1))
        wrong = max(wrong, abs(up - (3 * int(k) - 1)), down)
    return wrong


def _resting(data: xr.Dataset, n_features: int) -> list[np.ndarray]:
    """The k of the k-gon of each plateau, in order, or -1: one row for each network that rests."""
    losses = kgon_losses(data, n_features)
    kept = data.isel(seed=np.flatnonzero(data.alive.values))
    found: dict[int, list[int]] = {}
    for one in plateaus(kept.step.values, kept.loss.transpose("step", "seed").values):
        found.setdefault(one.seed, []).append(nearest_kgon(one.level, losses))
    return [np.array(at) for at in found.values()]
