"""Measured values of the claims on the path explosion, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import exact, mean_estimate, share_estimate
from circuitax.records.measured import Measured
from circuitax.records.members import members_where
from circuitax.records.null_samples import exchanged, regrouped
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record


def measure(record: Record) -> Measured:
    """The measured value of every claim, over members that stayed finite."""
    data = record.data
    one, two, deepest = (members_where(data.isel(depth=i)) for i in (0, 1, -1))
    last = deepest.loss.values
    late = (last[:, 2] - last[:, -1]) / (float(data.guess) - last[:, -1])
    of_one, of_two = one.loss_by_steps, two.loss_by_steps
    measured = {
        "paths-count": exact(np.abs(data["count"] - data.enumerated).max()),
        "paths-close": exact(data.remainder.where(data.alive).max()),
        "order-2-below-1": mean_estimate(first_above_second(two)),
        "most-paths-least-loss": mean_estimate(late),
        "depth-pays": difference_estimate(one.loss.isel(order=1), deepest.loss.isel(order=-1)),
        "second-step-needs-depth": mean_estimate(of_one.sel(steps=2) - of_one.sel(steps=1)),
        "third-step-needs-depth": mean_estimate(of_two.sel(steps=3) - of_two.sel(steps=2)),
        "ledger-complete": share_estimate(deepest.complete.all("text")),
        "ledger-brute-force": exact(deepest.brute_force_gap.max()),
        "ledger-positions": share_estimate(deepest.position_complete.all("text")),
        "ledger-cost": mean_estimate(deepest.evaluated.mean("text")),
    }
    return Measured(measured, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: orders, depths and numbers of steps exchanged; all paths alike."""
    data = record.data
    one, two, deepest = (members_where(data.isel(depth=i)) for i in (0, 1, -1))
    if not min(part.sizes["member"] for part in (one, two, deepest)):
        return {}
    of_one, of_two = one.loss_by_steps, two.loss_by_steps
    differences = {
        "order-2-below-1": first_above_second(two),
        "second-step-needs-depth": of_one.sel(steps=2) - of_one.sel(steps=1),
        "third-step-needs-depth": of_two.sel(steps=3) - of_two.sel(steps=2),
    }
    depths = regrouped(one.loss.isel(order=1), deepest.loss.isel(order=-1))
    n_paths = data["count"].isel(depth=-1).values
    return {
        "permuted": exchanged(differences) | {"depth-pays": depths},
        "false world": {
            "most-paths-least-loss": [n_paths[3:].sum() / n_paths.sum()],
            "ledger-cost": [1.0],
            "ledger-complete": [share_estimate((deepest.evaluated >= 1).all("text"))],
            # There are more paths of heads and positions than of heads.
            "ledger-positions": [
                share_estimate((deepest.position_evaluated >= n_paths.sum()).all("text"))
            ],
        },
    }


def first_above_second(members: xr.Dataset) -> xr.DataArray:
    """What order 1 adds to the right token's lead minus what order 2 adds, nats, of each member.

    A token that leads by ``a`` has the loss ``log(1 + (e^guess - 1) e^-a)``. Losses have a floor:
    what is added first would save more of them. Order 1 is counted from a guess where the direct
    path is worse than one: undoing it is no gain.
    """
    leads = -np.log(np.expm1(members.loss) / np.expm1(members.guess))
    direct, first, second = (leads.isel(order=k) for k in range(3))
    return (first - np.maximum(direct, 0)) - (second - first)
