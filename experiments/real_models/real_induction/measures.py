"""Measured values of the claims on SmolLM2's induction heads, from a record."""

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from circuitax.records.claims import unmet_rest
from circuitax.records.elsewhere import best_elsewhere, chosen_elsewhere
from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from experiments.real_models.real_induction import nulls as null_draws
from experiments.real_models.real_induction.claims import CLAIMS
from experiments.real_models.real_induction.pairs import of_pairs, places
from experiments.real_models.real_induction.reference import (
    INDUCTION_SCORE,
    ROWS,
    SCORES,
    TURN,
)
from experiments.real_models.real_induction.repeats import NEW, PAIR
from experiments.real_models.shared.model_facts import not_smollm2

CELLS = ("layer", "head")


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2, or on other texts."""
    notes, data = record.notes, record.data
    why = _other_texts(record)
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = estimates(data)
    if notes["no_prose"]:
        return Measured(found, {}, unmet_rest(CLAIMS, found, f"no prose: {notes['no_prose']}"))
    return Measured(found | prose_estimates(data), {})


def _other_texts(record: Record) -> str:
    """Why a run cannot settle the claims at all: another model, or other texts; else nothing."""
    why = not_smollm2(record.notes)
    if why:
        return why
    length, texts = record.notes["length"], record.data.sizes["text"]
    same = (length, texts) == (64, 4)
    return "" if same else f"length={length}, texts={texts}: the texts are not the claims'"


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random heads, sets, pairs and layers, and ends of chapters exchanged."""
    data, notes = record.data, record.notes
    if _other_texts(record) or not draws(data):
        return {}
    n_matching = int((best_mean(data) > INDUCTION_SCORE).sum())
    if not n_matching:
        return {}
    random = null_draws.of_heads(data, n_matching) | null_draws.of_pairs(data)
    random["real-k-best"] = null_draws.shares_with_less(null_draws.of_other_writers(data))
    over = null_draws.shares_with_less(null_draws.keys_over(data, "Q"))
    without = [null_draws.shares_with_less(x) for x in null_draws.keys_over_without(data, "V")]
    random |= {"real-k-over-q": over, "real-k-composition": np.min(without, axis=0)}
    random["real-ablation"] = null_draws.of_sets(rises(data), draws(data))
    random["real-ablation-previous"] = random["real-ablation"]
    random |= null_draws.of_any_head(data)
    random["real-previous-feeds"] = [
        mean_estimate((fed(data, name) / fed(data, "intact")).values) for name in draws(data)
    ]
    random["real-first-half"] = null_draws.of_layers(n_matching, 0.5)
    turned: dict[str, Draws] = {
        f"real-{kind}": [_miss(data, kind, k) for k in range(1, len(SCORES[kind]))]
        for kind in SCORES
    }
    second = data.loss.sel(set="intact", part="second").values
    others = [float(np.abs(second - np.roll(ROWS, k)).max()) for k in range(1, len(ROWS))]
    alike = best_mean(data)  # all heads write alike for what they look at
    false: dict[str, Draws] = {"real-loss-rows": others, "real-copying": [_copying(data, alike)]}
    if notes["no_prose"]:
        return {"random": random, "permuted": turned, "false world": false}
    pairs, falls, sets = prose_rises(data, PAIR), prose_falls(data), draws(data)
    more, later = pairs - prose_rises(data, NEW), falls - falls.sel(set="intact")
    random["real-prose-pairs"] = null_draws.of_sets(pairs, sets)
    random["real-prose-in-context-ablated"] = null_draws.of_sets(later, sets)
    random["real-prose-pairs-most"] = [mean_estimate(more.sel(set=name).values) for name in sets]
    return {
        "random": random,
        "permuted": null_draws.of_chapters(falls) | turned,
        "false world": false,
    }


def best_mean(data: xr.Dataset) -> xr.DataArray:
    """Prefix score of each head, mean over texts."""
    return data.scores.sel(twin="plain", kind="prefix").mean("text")


@measures(
    "real-loss-*",
    "real-ablation",
    "real-ablation-previous",
    "real-anti-copying",
    "real-first-half",
    "real-keys-earlier",
    "real-matching-head",
    "real-prefix",
    "real-previous",
    "real-previous-feeds",
    "real-same",
)
def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Numbers without an interval are of given texts; the others are means over texts or draws."""
    n = data.sizes["text"]
    intact = data.loss.sel(set="intact")
    first, turn, second = (intact.sel(part=name).values for name in ("first", "turn", "second"))
    rows = np.append(second - np.array(ROWS), turn.mean() - TURN)
    prefix = data.scores.sel(twin="plain", kind="prefix").stack(cell=CELLS)
    direct = data.direct
    mean_prefix = best_mean(data)
    best = of_top(data, data.scores.sel(twin="spoilt")).mean("rank")
    against = (-direct).where(mean_prefix > INDUCTION_SCORE, -np.inf).stack(cell=CELLS)
    anti = chosen_elsewhere(against, "cell", "text", n)
    inducers = np.argwhere(mean_prefix.values > INDUCTION_SCORE)
    return {
        "real-loss-first": exact(first.mean(), n),
        "real-loss-second": exact(second.mean(), n),
        "real-loss-rows": exact(np.abs(rows).max(), n),
        **{f"real-{kind}": exact(_miss(data, kind), n) for kind in SCORES},
        "real-matching-head": mean_estimate(best_elsewhere(prefix, "cell", "text", n)),
        "real-first-half": exact(np.mean(inducers[:, 0] < data.sizes["layer"] / 2))._replace(
            method=f"one model: share of {len(inducers)} heads"
        ),
        "real-copying": _copying(data, data.direct.mean("text")),
        "real-anti-copying": mean_estimate(direct.stack(cell=CELLS).isel(cell=anti)),
        "real-keys-earlier": mean_estimate(
            best.sel(kind="earlier").values - best.sel(kind="attended").values
        ),
        "real-ablation": _over_random(data, "induction"),
        "real-ablation-previous": _over_random(data, "previous"),
        "real-previous-feeds": mean_estimate((fed(data, "previous") / fed(data, "intact")).values),
        **_composition(data),
    }


def fed(data: xr.Dataset, name: str) -> xr.DataArray:
    """Mean prefix score of the five best induction heads without a set of heads, by text."""
    return data.prefix_of_top.sel(set=name).mean("rank")


@measures("real-copying")
def _copying(data: xr.Dataset, effect: xr.DataArray) -> Estimate:
    """Share of choices of as many heads of the same layers that have less of an effect."""
    own = float(of_top(data, effect).mean())
    return _share_below(own, null_draws.of_same_layers(data, effect))


@measures("real-k-*", "real-rotation-all")
def _composition(data: xr.Dataset) -> dict[str, Estimate]:
    """Composition from the weights; the heads are given, and those of one model are no sample."""
    place = places(data)
    keys = place.sel(reading="K")
    best = float(keys.max("writer").mean())
    over = float((keys - place.sel(reading="Q")).mean())
    return {
        "real-k-composition": _least_without_one(data, "V"),
        "real-k-over-q": _share_below(over, null_draws.keys_over(data, "Q")),
        "real-k-best": _share_below(best, null_draws.of_other_writers(data)),
        "real-k-rotation": of_one_model(of_pairs(data, data.composition_z.sel(reading="K"))),
        "real-rotation-all": exact(data.beyond_rotations.sel(reading="K")),
    }


def _least_without_one(data: xr.Dataset, other: str) -> Estimate:
    """Least share of choices with less through keys than another way, a writer left out in turn."""
    place = places(data).transpose("reading", "reader", "writer")
    over = (place.sel(reading="K") - place.sel(reading=other)).values
    over = over[:, np.isfinite(over).any(axis=0)]  # a writer behind all readers has no pair
    shares = [
        _share_below(float(np.nanmean(np.delete(over, i, axis=1))), choices)
        for i, choices in enumerate(null_draws.keys_over_without(data, other))
    ]
    return min(shares, key=lambda share: share.value)


def _share_below(own: float, others: np.ndarray) -> Estimate:
    """Share of choices of heads of one model that have less than its own."""
    less = (others < own) & ~np.isclose(others, own)  # its own may be among them
    return exact(less.mean())._replace(
        method=f"one model: {less.sum()} of {less.size} choices; {own:.3f}, others from "
        f"{others.min():.3f} to {others.max():.3f}"
    )


def of_one_model(values: ArrayLike) -> Estimate:
    """The mean over the heads or pairs of one model; their spread is told in words."""
    each = np.asarray(values)
    each = each[np.isfinite(each)]
    spread = f"one model: mean of {each.size} values from {each.min():.2f} to {each.max():.2f}"
    return exact(each.mean())._replace(method=spread)


@measures("real-prose-*")
def prose_estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over chapters; random sets are averaged first."""
    falls, pairs = prose_falls(data), prose_rises(data, PAIR)
    lost = {"pairs": pairs, "in-context-ablated": falls - falls.sel(set="intact")}
    return {
        "real-prose-pairs-most": mean_estimate(
            (pairs - prose_rises(data, NEW)).sel(set="induction").values
        ),
        "real-prose-in-context": mean_estimate(falls.sel(set="intact").values),
        **{
            f"real-prose-{name}": mean_estimate(
                (rise.sel(set="induction") - rise.sel(set=draws(data)).mean("set")).values
            )
            for name, rise in lost.items()
        },
    }


def prose_falls(data: xr.Dataset) -> xr.DataArray:
    """Mean loss over the last quarter minus that over the second eighth, ``[set, chapter]``."""
    loss = data.prose_loss
    n = loss.sizes["predicted"] + 1
    early, late = (
        loss.isel(predicted=slice(n // 8, n // 4)),
        loss.isel(predicted=slice(-n // 4, None)),
    )
    return late.mean("predicted") - early.mean("predicted")


def prose_rises(data: xr.Dataset, kind: int) -> xr.DataArray:
    """Loss increase without each set on the tokens of a kind, ``[set, chapter]``, in nats."""
    losses = data.prose_loss.where(data.prose_kind == kind).mean("predicted")
    return losses - losses.sel(set="intact")


def rises(data: xr.Dataset) -> xr.DataArray:
    """Loss increase without each set on second copies, mean over texts, in nats."""
    later = data.loss.sel(part="second").mean("text")
    return later - later.sel(set="intact")


def draws(data: xr.Dataset) -> list[str]:
    """Names of the random sets."""
    return [str(name) for name in data["set"].values if str(name).startswith("random")]


def of_top(data: xr.Dataset, values: xr.DataArray) -> xr.DataArray:
    """The values of the heads that match prefixes best, along ``rank``."""
    best = data.sel(without="induction")
    return values.isel(layer=best.removed_layer, head=best.removed_head)


def _over_random(data: xr.Dataset, name: str) -> Estimate:
    rise = rises(data)
    return mean_estimate((rise.sel(set=name) - rise.sel(set=draws(data))).values)


def _miss(data: xr.Dataset, kind: str, turned: int = 0) -> float:
    """Largest difference from a reference table of scores, whose heads may be moved in turn."""
    mean = data.scores.sel(twin="plain", kind=kind).mean("text").values
    values = np.roll(list(SCORES[kind].values()), turned)
    return max(
        abs(float(mean[cell]) - value) for cell, value in zip(SCORES[kind], values, strict=True)
    )
