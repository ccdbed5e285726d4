"""Induction on real text, measured: prefix scores, losses on repeated pairs, ablations."""

import numpy as np
import xarray as xr

from circuitax.records.difference import difference_estimate
from circuitax.records.estimate import Estimate, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_samples import exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import widened
from experiments.induction.text_induction.claims import CLAIMS

PRIMED, PLAIN, SINGLE = "2 layers, primed", "2 layers", "1 layer, primed"

# What the windows and texts that all seeds share have of the variance, at quick scale
# (docs/checks.md).
OF_WINDOWS = {
    "text-induction-repeats": 0.89,
    "text-induction-plain": 0.96,
    "text-induction-one-layer": 0.98,
    "text-induction-primed": 0.25,
    "text-induction-stays": 0.25,
    "text-induction-ablation": 0.03,
}

# Mean attention to matches, which cannot leave 0 to 1.
SCORES = ("text-induction-primed", "text-induction-plain", "text-induction-one-layer")


def measure(record: Record) -> Measured:
    """Measured values of the claims; arms that do not end on plain text have no claims."""
    # Older records were made before the share was noted: all of them end on plain text.
    share = record.notes.get("repeated_share", 0.0)
    mixed = f"repeated_share={share}: no arm ends on plain text"
    not_run = {claim.id: mixed for claim in CLAIMS} if share else {}
    found = widened(estimates(record.data), OF_WINDOWS)
    return Measured(found | {name: _as_share(found[name]) for name in SCORES}, {}, not_run)


@measures("text-*")
def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over seeds for each claim, and the price of the primer in held-out nats."""
    best = data.prefix.max(["layer", "head"])
    plain, primed, single = (_alive(data, arm) for arm in (PLAIN, PRIMED, SINGLE))
    last = {"step": -1}

    def score(members: xr.Dataset) -> Estimate:
        return mean_estimate(best.sel(arm=members.arm).isel(last).isel(member=members.index).values)

    def gap(name: str) -> Estimate:
        return difference_estimate(plain[name].isel(last).values, primed[name].isel(last).values)

    scores = best.sel(arm=PRIMED).isel(member=primed.index)
    stays = scores.isel(last) / scores.sel(step=int(data.primer))
    return {
        "text-induction-primed": score(primed),
        "text-induction-plain": score(plain),
        "text-induction-one-layer": score(single),
        "text-induction-stays": mean_estimate(stays.values),
        "text-induction-repeats": _repeats(plain.isel(last), primed.isel(last)),
        "text-induction-ablation": mean_estimate(_margin(primed)),
        "gain-held-out": gap("loss"),
        "gain-new": gap("loss_new"),
    }


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: scores before training, two layers for one, and one for two."""
    plain, primed, single = (_alive(record.data, arm) for arm in (PLAIN, PRIMED, SINGLE))
    fewest = min(arm.sizes["member"] for arm in (plain, primed, single))
    if record.notes.get("repeated_share", 0.0) or fewest < 2:
        return {}
    best = primed.prefix.max(["layer", "head"])
    never = plain.prefix.max(["layer", "head"])
    last, after = {"step": -1}, {"step": int(record.data.primer)}
    ends = float(best.sel(after).mean())
    return {
        "untrained": {
            "text-induction-primed": [mean_estimate(best.isel(step=0))],
            "text-induction-plain": [mean_estimate(never.isel(step=0))],
        },
        "mismatched": {
            "text-induction-one-layer": [mean_estimate(best.isel(step=-1))],
            "text-induction-stays": [mean_estimate((never.isel(step=-1) / ends).values)],
            "text-induction-repeats": [
                _repeats(plain.isel(last), single.isel(last)),
                _repeats(plain.sel(after), single.sel(after)),
                _repeats(plain.isel(last), single.sel(after)),
            ],
        },
        "permuted": exchanged({"text-induction-ablation": _margin(primed)}),
    }


def _repeats(plain: xr.Dataset, primed: xr.Dataset) -> Estimate:
    """The lesser of what a primer saves on repeated pairs and how much more than on other tokens.

    What other tokens lose alone would count as saved on pairs, if the second were judged alone.
    """
    saved = difference_estimate(plain.loss_repeated.values, primed.loss_repeated.values)
    more = [(arm.loss_repeated - arm.loss_new).values for arm in (plain, primed)]
    return min(saved, difference_estimate(*more), key=lambda found: found.value)


def _as_share(estimate: Estimate) -> Estimate:
    """The same interval, cut where no share can be."""
    low, high = max(estimate.low, 0.0), min(estimate.high, 1.0)
    return estimate._replace(low=low, high=high, method=f"{estimate.method}, within 0 to 1")


def _margin(members: xr.Dataset) -> np.ndarray:
    """Cost on repeated pairs minus cost on other tokens, of the best prefix-matching head."""
    end = members.isel(step=-1)
    repeated = members.ablated_loss_repeated - end.loss_repeated
    margin = repeated - (members.ablated_loss_new - end.loss_new)
    heads = ("layer", "head")
    best = end.prefix.stack(cell=heads).fillna(-1).argmax("cell")
    return margin.stack(cell=heads).isel(cell=best).values


def _alive(data: xr.Dataset, arm: str) -> xr.Dataset:
    chosen = data.sel(arm=arm)
    index = np.flatnonzero(chosen.alive.values)
    return chosen.isel(member=index).assign(index=("member", index))
