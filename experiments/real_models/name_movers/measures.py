"""Measured values of the claims on SmolLM2's name movers, from a record."""

import numpy as np
import xarray as xr
from circuitax.records.claims import unmet_rest
from circuitax.records.measured import Measured
from circuitax.records.nulls import Nulls

from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.record import Record
from experiments.real_models.name_movers.claims import CLAIMS
from experiments.real_models.shared.model_facts import not_smollm2

DRAWS = 200
Heads = list[tuple[int, int]]


def measure(record: Record) -> Measured:
    """Measured values of the claims; empty without SmolLM2."""
    why = not_smollm2(record.notes)
    if why:
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    return Measured(estimates(record.data), {}, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random heads and sets, and names exchanged."""
    if not_smollm2(record.notes):
        return {}
    data, rng = record.data, np.random.default_rng(0)
    deep = [(i, h) for i in range(data.sizes["layer"]) for h in range(data.sizes["head"])]
    deep = deep[len(deep) // 2 :]
    random: dict[str, list[Estimate]] = {}
    for _ in range(DRAWS):
        chosen = rng.choice(len(deep), data.sizes["rank"], replace=False)
        for name, found in of_heads(data, [deep[i] for i in chosen]).items():
            random.setdefault(name, []).append(found)
    sets = [str(name) for name in data.without.values if str(name) != "movers"]
    random["movers-removed"] = [_removed(data, name, sets) for name in sets]
    lead = leads(data)
    flips = rng.choice([-1.0, 1.0], size=(DRAWS, lead.size))
    tasks = [_share(lead * flip) for flip in flips]
    return {"random": random, "permuted": {"movers-task": tasks}}


def estimates(data: xr.Dataset) -> dict[str, Estimate]:
    """Means over the sentences that heads were not chosen on."""
    sets = [str(name) for name in data.without.values if str(name) != "movers"]
    movers = list(zip(data.mover_layer.values, data.mover_head.values, strict=True))
    return {
        "movers-task": _share(leads(data)),
        **of_heads(data, movers),
        "movers-removed": _removed(data, "movers", sets),
    }


def of_heads(data: xr.Dataset, heads: Heads) -> dict[str, Estimate]:
    """Attention and copying of some heads; the correlation has no interval, heads are no sample."""
    seen = data.isel(half=1)
    attention = np.stack([seen.attention.isel(layer=i, head=h).values for i, h in heads])
    direct = np.stack([seen.direct.isel(layer=i, head=h).values for i, h in heads])
    to_object, to_subject = attention[..., 0], attention[..., 1:].sum(axis=-1)
    correlations = [
        _correlation(np.concatenate(to), np.concatenate(raised))
        for to, raised in zip(
            np.stack([to_object, to_subject], axis=1), np.moveaxis(direct, -1, 1), strict=True
        )
    ]
    spread = f"one model: mean of {len(heads)} heads, {min(correlations):.2f} at least"
    n = seen.sizes["sentence"]
    return {
        "movers-attend": mean_estimate(to_object.mean(axis=0)),
        "movers-name": mean_estimate((to_object - to_subject).mean(axis=0)),
        "movers-copy": exact(np.mean(correlations), n)._replace(method=spread),
    }


def leads(data: xr.Dataset) -> np.ndarray:
    """Logit of the indirect object minus that of the subject, of each sentence."""
    logit = data.logit.isel(half=1).values
    return np.asarray(logit[:, 0] - logit[:, 1])


def _removed(data: xr.Dataset, name: str, sets: list[str]) -> Estimate:
    """Fall of the lead without a set minus the mean fall without others, over the mean lead."""
    others = data.lead_without.sel(without=[other for other in sets if other != name])
    fall = others.mean("without").values - data.lead_without.sel(without=name).values
    return mean_estimate(fall / leads(data).mean())


def _share(lead: np.ndarray) -> Estimate:
    return mean_estimate((lead > 0).astype(float), bounds=(0, 1))


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else 0.0
