"""What the path explosion is held against, fixed before the first run, and how it is measured."""

import numpy as np
import xarray as xr

from circuitax.records.claims import Claim, at_least, at_most
from circuitax.records.estimate import Estimate, exact, mean_estimate, proportion_estimate

FRAMEWORK = "framework paper, term importance analysis"
CLAIMS = (
    Claim("paths-count", "S0 section 6; framework paper", "A model has Σ_k C(L,k) H^k paths: "
          "greatest difference from enumeration over depths and orders", "paths-count", at_most(0),
          "exact", "identity"),
    Claim("paths-close", "framework paper, path expansion", "All paths of all depths sum to the "
          "logits: greatest remainder over greatest logit", "paths-close", at_most(1e-4),
          "float32, up to 15,625 terms", "identity"),
    Claim("order-2-below-1", FRAMEWORK, "In two layers, virtual heads are worth less than single "
          "heads: marginal of order 1 minus marginal of order 2, nats", "order-2-below-1",
          at_least(0), "a relation; the paper has 5.2 against 0.3", "shape", "all finite seeds", 8),
    Claim("most-paths-least-loss", FRAMEWORK, "In the deepest models, the share of the loss gain "
          "over uniform that comes last, from orders 3 and up, which hold 98 % of the paths",
          "most-paths-least-loss", at_most(0.5), "a relation: less than half; on "
          "a task to which depth brings nothing, 2.7 nats from one layer to six", "shape",
          "all finite seeds", 8),
    Claim("ledger-complete", "design section 11", "Share of the deepest models in which the ledger "
          "proves its twenty largest paths to be the largest of all, on each text ranked",
          "ledger-complete", at_least(0.6), "95 % interval of 8 of 8 ends at 0.68", "shape",
          "all finite seeds", 8),
    Claim("ledger-brute-force", "design section 11", "In the deepest models the ledger's paths are "
          "the largest of all, computed one by one: greatest difference in size, over the largest "
          "path", "ledger-brute-force", at_most(1e-4), "float32, 15,625 paths, trained models",
          "identity", "all finite seeds, all texts ranked"),
    Claim("ledger-positions", "design section 11", "The share in which it proves the same of "
          "paths of heads and positions (ten thousand million at quick scale)",
          "ledger-positions", at_least(0.6), "as ledger-complete; a pilot with another key proved "
          "3 of 3", "shape", "all finite seeds", 8),
    Claim("ledger-cost", "design section 11", "Share of all paths that the ledger has to evaluate "
          "in the deepest models", "ledger-cost", at_most(0.5), "a bound that bites", "shape",
          "all finite seeds", 8),
)  # fmt: skip


def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """The measured value of every claim, over members that stayed finite."""
    two, deepest = (data.isel(depth=i, member=np.flatnonzero(data.alive[i])) for i in (1, -1))
    loss = two.loss.values
    last = deepest.loss.values
    late = (last[:, 2] - last[:, -1]) / (float(data.uniform) - last[:, -1])
    complete = deepest.complete.all("text").values
    placed = deepest.position_complete.all("text").values
    return {
        "paths-count": exact(np.abs(data["count"] - data.enumerated).max()),
        "paths-close": exact(np.nanmax(data.remainder.where(data.alive))),
        "order-2-below-1": mean_estimate((loss[:, 0] - loss[:, 1]) - (loss[:, 1] - loss[:, 2])),
        "most-paths-least-loss": mean_estimate(late),
        "ledger-complete": proportion_estimate(int(complete.sum()), complete.size),
        "ledger-brute-force": exact(deepest.brute_force_gap.max()),
        "ledger-positions": proportion_estimate(int(placed.sum()), placed.size),
        "ledger-cost": mean_estimate(deepest.evaluated.mean("text").values),
    }
