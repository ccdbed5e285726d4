"""Claims on the scale 1/sqrt(d_k) of scores, and their measurement from the record.

S1 and S2 are notes on linear algebra and on attention (docs/coverage.md); d_k is a head's width.
"""

import numpy as np
import xarray as xr

from circuitax.records import papers
from circuitax.records.claims import ClaimSource, at_least, at_most, near
from circuitax.records.difference import difference_estimate, ratio_estimate
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.record import Record

PAPERS = ClaimSource(
    "S1 and S2, scaling of scores",
    kind="shape",
    n=8,
    selection="all seeds that stayed finite; each its own data",
    origin="published",
    link=papers.ATTENTION,
)
CLAIMS = (
    PAPERS.claim(
        "scale-growth",
        "Without the scale the variance of scores grows in proportion to d_k: slope of log "
        "variance over log d_k at initialisation",
        near(1, 0.1),
        "1 in expectation, since queries and keys begin with variance 1; a few percent of noise "
        "from "
        "finite widths",
        origin="theorem",
        link="",
    ),
    PAPERS.claim(
        "scale-constant",
        "With the scale it does not grow: the same slope",
        near(0, 0.1),
        "0 in expectation; likewise",
        origin="theorem",
        link="",
    ),
    PAPERS.claim(
        "scale-saturates",
        "At the widest head the softmax's Jacobian without the scale is less than half of "
        "that with it, at initialisation: ratio of mean norms",
        at_most(0.5),
        "the sources say near zero; a half is far from both",
        printed="without it the softmax saturates, with gradients near zero; no number",
    ),
    PAPERS.claim(
        "scale-trains",
        "After training the widest heads have a higher loss without the scale: difference, nats",
        at_least(0),
        "a relation; the sources speak of gradients",
        origin="ours",
        link="",
    ),
)


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    scaled, raw = (record.data.sel(scale=name) for name in ("1/sqrt(d_k)", "1"))
    widest = [part.isel(width=-1) for part in (raw, scaled)]
    without, with_scale = (part.jacobian.sel(time="initial") for part in widest)
    losses = [members_where(part).loss.sel(time="trained") for part in widest]
    measured = {
        "scale-growth": _growth(raw),
        "scale-constant": _growth(scaled),
        "scale-saturates": ratio_estimate(without, with_scale),
        "scale-trains": difference_estimate(*losses),
    }
    return Measured(measured, {})


def _growth(part: xr.Dataset) -> Estimate:
    """Slope of log variance over log d_k at initialisation, mean over members."""
    log_variance = np.log(part.variance.sel(time="initial").transpose("width", "member").values)
    return mean_estimate(np.polyfit(np.log(part.width.values), log_variance, 1)[0])
