"""What one-layer circuits are held against, fixed before the first run, and how it is measured."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, at_least, between
from circuitax.records.estimate import Estimate, mean_estimate

WHERE = "framework paper, one-layer models"
ALL = "all seeds that stayed finite; every head counts, seeds are the replicates"
COPIES = 0.1  # a random circuit of this rank is within 0.1 of 0 (reference page, F9)
LEARNED = 0.75
CLAIMS = (
    Claim("ov-random", WHERE, "Before training the OV eigenvalue score is 0: mean over heads",
          "ov-random", between(-0.1, 0.1), "rank 16, mean of four heads", "number", ALL, 8),
    Claim("ov-copying-rise", WHERE, "Training makes heads copy: mean score after minus before (F8)",
          "ov-copying-rise", at_least(0), "a relation", "shape", ALL, 8),
    Claim("ov-most-copy", WHERE, "Most heads copy: share of heads with score over 0.1 (F9)",
          "ov-most-copy", at_least(0.5), "10 of 12 in the paper; more than half", "shape", ALL, 8),
    Claim("copying-top-5", WHERE, "In the best head, tokens are among the five they raise most "
          "more often than by chance: ratio", "copying-top-5", at_least(2), "chance is 1", "shape",
          ALL, 8),
    Claim("bugs-cost", "framework paper, skip-trigram bugs; S4", "Bilinearity costs: held-out nats "
          "an event that a free vector for each frequent pair saves", "bugs-cost", at_least(0),
          "a relation; the paper leaves the price open", "shape", ALL, 8),
    Claim("additivity-gap", "S0 Theorem 25; S4; Shlegeris 2023 (E11)", "On 'a unless b' one head "
          "beats every sum of skip-trigrams: held-out nats an answer", "additivity-gap",
          at_least(0), "a relation; 0.028 at the optimum of both", "shape",
          "seeds whose head learned the rule (P(out) over 0.75 with a alone)", 4),
)  # fmt: skip


def estimates(data: xr.Dataset) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Means over seeds of what each claim names, and the claims whose precondition fails."""
    alive = data.isel(member=np.flatnonzero(data.alive.values))
    best = alive.top_5.max("head") / (5 / data.sizes["token"])
    measured = {
        "ov-random": mean_estimate(alive.copying_at_init.mean("head")),
        "ov-copying-rise": mean_estimate((alive.copying - alive.copying_at_init).mean("head")),
        "ov-most-copy": mean_estimate((alive.copying > COPIES).mean("head")),
        "copying-top-5": mean_estimate(best),
        "bugs-cost": mean_estimate(alive.bug_price),
    }
    runs = data.isel(run=np.flatnonzero(learned(data).values))
    if not runs.sizes["run"]:
        return measured, {"additivity-gap": "no seed learned the rule"}
    return measured | {"additivity-gap": mean_estimate(runs.gap)}, {}


def learned(data: xr.Dataset) -> xr.DataArray:
    """Seeds whose head tells a alone from the other cells; the others sit on a plateau."""
    return data.gap_alive & (data.p_out.isel(cell=1) > LEARNED)
