"""Measured values of the claims on one-layer circuits, from a record: means over seeds."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import (
    Estimate,
    geometric_estimate,
    mean_estimate,
)
from circuitax.records.measured import Measured, measures
from circuitax.records.members import members_where
from circuitax.records.null_draws import beside, measured_again, with_data
from circuitax.records.null_samples import DRAWS, exchanged
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.shared_exam import over_seeds_only

LEARNED = 0.75  # P(out) after a alone, from which a head has learned the rule
TINY = 1e-12
COPIES = 0.25  # copying score that one random head in twenty has between trained embeddings

# Claims measured on texts that all seeds share.
ON_TEXTS = ("bugs-cost", "bugs-said", "text-additivity-gap", "text-ensemble")


def measure(record: Record) -> Measured:
    """The measured value of every claim, and the claims whose precondition fails."""
    data = record.data
    alive = members_where(data)
    best = alive.top_5.max("head") / (5 / data.sizes["token"])
    measured = {
        "ov-random": mean_estimate(alive.copying_at_init.mean("head")),
        "ov-copying-rise": mean_estimate(_second_least(alive.copying - alive.copying_at_init)),
        "ov-most-copy": _most_copy(alive.copying),
        "copying-top-5": mean_estimate(best),
        "bugs-cost": mean_estimate(alive.bug_price),
        "additive-loss": mean_estimate(data.additive_loss - data.optimal_loss),
    }
    unmet: dict[str, str] = {}
    not_run: dict[str, str] = {}
    said = _said(alive)
    if said.size:
        measured["bugs-said"] = geometric_estimate(said)
    else:
        unmet["bugs-said"] = "no pair of a bug stands in the windows looked at"
    measured |= _on_text(data)
    if "text-additivity-gap" not in measured:
        both = ("text-additivity-gap", "text-ensemble")
        not_run |= dict.fromkeys(both, "no pair of models stayed finite")
    trained = members_where(data, "gap_alive")
    if trained.sizes["run"]:
        measured["additivity-gap"] = mean_estimate(trained.gap)
    else:
        not_run["additivity-gap"] = "no head stayed finite"
    runs = members_where(data, learned(data))
    if runs.sizes["run"]:
        measured["additivity-gap-learned"] = mean_estimate(runs.gap)
    else:
        unmet["additivity-gap-learned"] = "no seed learned the rule"
    return Measured(over_seeds_only(measured, ON_TEXTS), unmet, not_run)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: heads before training, and sides of differences exchanged."""
    alive = members_where(record.data)
    if not alive.sizes["member"]:
        return {}
    start = record.data.assign(
        {name: record.data[f"{name}_at_init"] for name in ("copying", "top_5")}
    )
    data = record.data
    no_gain = data.assign(sum_end=xr.zeros_like(data.sum_end) + data.bigram_loss)
    pairs = members_where(data, np.isfinite(data.softmax_end) & np.isfinite(data.sum_end))
    differences = {
        "text-additivity-gap": pairs.sum_end - pairs.softmax_end,
        "additivity-gap": members_where(data, "gap_alive").gap,
        "additivity-gap-learned": members_where(data, learned(data)).gap,
        "ov-copying-rise": _second_least(alive.copying - alive.copying_at_init),
        "bugs-cost": alive.bug_price,
    }
    said = _said(alive)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(DRAWS, said.size))
    ratios = {"bugs-said": [geometric_estimate(row * said) for row in signs]} if said.size else {}
    permuted = exchanged({name: d for name, d in differences.items() if d.size}) | ratios
    rise, copy, before = "ov-copying-rise", "ov-most-copy", alive.copying_at_init
    two = _two_heads_trained(alive)
    rises = [mean_estimate(_second_least(scores - before)) for scores in two]
    # Of a draw of either kind the one nearer to holding.
    pairs_of_draws = zip(permuted[rise], rises, strict=True)
    permuted[rise] = [max(pair, key=lambda draw: draw.low) for pair in pairs_of_draws]
    false = measured_again(measure, [with_data(record, no_gain)])
    false[copy] = beside(map(_most_copy, two), [_most_copy(before)])
    return {
        "untrained": measured_again(measure, [with_data(record, start)]),
        "permuted": permuted,
        "false world": false,
    }


def _most_copy(scores: xr.DataArray) -> Estimate:
    """Share of heads with the score from which a head copies."""
    return mean_estimate((scores > COPIES).mean("head"))


def _second_least(rises: xr.DataArray) -> xr.DataArray:
    """The second least of the heads, which all but one of them reach."""
    ordered = np.sort(rises.transpose(..., "head").values, axis=-1)
    return rises.isel(head=0, drop=True).copy(data=ordered[..., min(1, ordered.shape[-1] - 1)])


def _two_heads_trained(alive: xr.Dataset) -> list[xr.DataArray]:
    """Scores where the two best heads of each seed are as trained, and the others untrained.

    The others are drawn anew from the untrained heads of all seeds.
    """
    before, order = alive.copying_at_init, alive.copying.argsort(alive.copying.get_axis_num("head"))
    best = order.argsort(order.get_axis_num("head")) >= alive.sizes["head"] - 2
    rng, found = np.random.default_rng(0), []
    for _ in range(DRAWS):
        drawn = before.copy(data=rng.permuted(before.values.ravel()).reshape(before.shape))
        found.append(alive.copying.where(best, drawn))
    return found


@measures("text-*")
def _on_text(data: xr.Dataset) -> dict[str, Estimate]:
    """Last losses of both families, and their difference, seed by seed in order."""
    kept = members_where(data, np.isfinite(data.softmax_end) & np.isfinite(data.sum_end))
    if not kept.sizes["pair"]:
        return {}
    share = (kept.bigram_loss - kept.sum_end) / (kept.bigram_loss - kept.softmax_end)
    return {
        "text-softmax-end": mean_estimate(kept.softmax_end),
        "text-sum-end": mean_estimate(kept.sum_end),
        "text-additivity-gap": mean_estimate(kept.sum_end - kept.softmax_end),
        "text-ensemble": mean_estimate(share),
    }


def _said(alive: xr.Dataset) -> np.ndarray:
    """Mean log of P(out) over that without the head, of seeds with a bug's pair in the windows."""
    said = np.log(np.maximum(alive.bug_said, TINY) / np.maximum(alive.bug_without, TINY))
    means: np.ndarray = said.mean("bug").values
    return means[np.isfinite(means)]


def learned(data: xr.Dataset) -> xr.DataArray:
    """Seeds whose head tells a alone from the other cells; the others sit on a plateau."""
    return data.gap_alive & (data.p_out.isel(cell=1) > LEARNED)
