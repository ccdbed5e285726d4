"""Measured values of the claims on directions in real models, from a record."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from circuitax.records.claims import unmet_rest
from circuitax.records.measured import Measured
from circuitax.records.null_draws import measured_again, with_data
from circuitax.records.nulls import Nulls

from circuitax.records.estimate import Estimate, exact, mean_estimate
from circuitax.records.record import Record
from experiments.directions.text_superposition.claims import CLAIMS
from experiments.directions.text_superposition.levels import FEATURE, TAIL

N_DRAWS, N_DIRECTIONS, N_RECORDS = 20, 2000, 200
TOKENS = "smollm2 tokens"


def measure(record: Record) -> Measured:
    """Measured values of the claims, of the models at hand."""
    data, notes = record.data, record.notes
    if notes["weights"] != "real":
        why = f"weights={notes['weights']}: a small random model"
        return Measured({}, {}, unmet_rest(CLAIMS, {}, why))
    found = bounds(data)
    if "ours" in notes["models"]:
        found |= ours(data)
    if "smollm2" in notes["models"]:
        found |= smollm2(data)
    if {"ours", "smollm2"} <= set(notes["models"]):
        theirs, own = (_over_random(_of(data, name, "tokens"))[0] for name in ("smollm2", "ours"))
        found["ours-nearer-random"] = mean_estimate(theirs / own)
    if "features" in notes:
        found |= features(data)
    if "smollm2_features" in notes:
        found |= smollm2_features(data)
    not_run = unmet_rest(CLAIMS, found, f"no weights: {notes['missing']}")
    if "features" not in notes:
        of_features = [claim for claim in CLAIMS if claim.id.startswith("features-")]
        not_run |= unmet_rest(of_features, found, "no weights of our text model in this run")
    if "smollm2" in notes["models"]:
        tails = [
            claim for claim in CLAIMS if claim.id in ("smollm2-tokens-tail", "smollm2-write-tail")
        ]
        not_run |= unmet_rest(tails, found, "no pair of so few random directions is in the tail")
    if not notes["missing"]:
        theirs = [claim for claim in CLAIMS if claim.id.startswith("smollm2-features-")]
        not_run |= unmet_rest(theirs, found, "no features of SmolLM2 in this run")
    return Measured(found, {}, not_run)


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: random directions in the place of each set, and two false worlds."""
    data, notes = record.data, record.notes
    if notes["weights"] != "real":
        return {}
    sizes = {"ours": "features", "smollm2": "smollm2_features"}
    pools = {
        model: _random_dictionaries(
            2 * data.sizes["seed"], notes[name]["width"], notes[name]["dim"]
        )
        for model, name in sizes.items()
        if name in notes
    }
    rngs = (np.random.default_rng(i) for i in range(N_RECORDS))
    of_features = {model: notes[sizes[model]] for model in pools}
    altered = (with_data(record, _of_random(data, pools, of_features, rng)) for rng in rngs)
    random = measured_again(measure, altered)
    false = measured_again(measure, [with_data(record, _false_world(data))])
    of_tokens = (data.model == "smollm2").values & (data.kind == "tokens").values
    draws = []
    for i in range(N_DRAWS if of_tokens.any() else 0):
        rows = np.random.default_rng(i).standard_normal(
            (N_DIRECTIONS, data.dim.values[of_tokens][0])
        )
        total = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).sum(axis=0)
        draws.append((total @ total - N_DIRECTIONS) / (N_DIRECTIONS * (N_DIRECTIONS - 1)))
    return {"random": random | {"smollm2-common": draws}, "false world": false}


def _of_random(
    data: xr.Dataset,
    pools: dict[str, dict[str, np.ndarray]],
    of_features: Mapping[str, Mapping[str, Any]],
    rng: np.random.Generator,
) -> xr.Dataset:
    """The data with random sets in the place of all, drawn anew for each.

    Sets of weights are those on record, dictionaries those of ``pools``, by model and quantity;
    what is on for a vector are any latents of as many as the notes ``of_features`` tell.
    """
    changed = {}
    for name in ("mean_square", "dimensionality_sum", "tail", "largest"):
        own, null = data[name], data[f"null_{name}"].drop_vars("draw", errors="ignore")
        order = rng.permutation(null.sizes["draw"])
        null = null.isel(draw=order if "draw" in own.dims else int(order[0]))
        changed[name] = null.broadcast_like(own).transpose(*own.dims)
    for model, pool in pools.items():
        stem = FEATURE[model]
        for name, values in pool.items():
            order = rng.permutation(len(values))
            for part, which in (("null_", order[::2]), ("", order[1::2])):
                own = data[f"{stem}_{part}{name}"]
                each = xr.DataArray(values[which[: own.sizes["seed"]]], dims="seed")
                changed[f"{stem}_{part}{name}"] = each.broadcast_like(own).transpose(*own.dims)
        notes = of_features[model]
        unused = (1 - notes["active"] / notes["width"]) ** notes["measured_on"]
        dead = rng.binomial(notes["width"], unused, data.sizes["seed"]) / notes["width"]
        changed[f"{stem}_dead"] = data[f"{stem}_dead"].copy(data=dead)
        agreement = data[f"{stem}_null_agreement"].values
        changed[f"{stem}_agreement"] = data[f"{stem}_agreement"].copy(data=agreement)
    return data.assign(changed)


def _random_dictionaries(n: int, width: int, dim: int) -> dict[str, np.ndarray]:
    """Overlaps of random dictionaries, ``[n]`` each."""
    rng, found = np.random.default_rng(0), []
    for _ in range(n):
        rows = rng.standard_normal((width, dim))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        cosines = rows @ rows.T
        pairs = np.abs(cosines[np.triu_indices(width, 1)])
        sums = (1 / (cosines**2).sum(axis=1)).sum()
        found.append(((pairs**2).mean(), sums, (pairs > TAIL / dim**0.5).mean()))
    return dict(zip(("mean_square", "dimensionality_sum", "tail"), np.array(found).T, strict=True))


def _false_world(data: xr.Dataset) -> xr.Dataset:
    """The data in which neurons overlap as tokens do, and features are principal components."""
    tokens = (data.model == "smollm2").values & (data.kind == "tokens").values
    neurons = (data.model == "smollm2").values & np.isin(data.kind, ["read", "write"])
    changed = {}
    if tokens.any():
        random = data.null_mean_square.mean("draw")
        over = (data.mean_square / random).isel(set=int(tokens.argmax()), drop=True)
        changed["mean_square"] = data.mean_square.where(
            ~xr.DataArray(neurons, dims="set"), random * over
        )
    if "feature_error" in data:
        changed["feature_error"] = xr.zeros_like(data.feature_error) + data.feature_components_error
    return data.assign(changed)


def bounds(data: xr.Dataset) -> dict[str, Estimate]:
    """The two theorems, at the set that comes nearest to breaking them."""
    return {
        "real-welch": exact((data.mean_square / data.welch**2).min(), data.sizes["set"]),
        "real-dims-bound": exact((data.dimensionality_sum / data.dim).max(), data.sizes["set"]),
    }


def smollm2(data: xr.Dataset) -> dict[str, Estimate]:
    """Tokens and neurons of SmolLM2, and random directions of the shape of its embedding."""
    tokens, centred = (
        _of(data, "smollm2", "tokens", False),
        _of(data, "smollm2", "tokens"),
    )
    law = data.law.sel(group=TOKENS, multiple=TAIL).item()
    random = tokens["null_tail"].values[0] / law
    found = {
        "random-tail": mean_estimate(random),
        "random-mean-square": mean_estimate((tokens.null_mean_square * tokens.dim).values[0]),
        "smollm2-common": exact(tokens["mean"].values[0]),
        "smollm2-centring": exact(tokens.mean_square.values[0] / centred.mean_square.values[0]),
        "smollm2-tokens-above-random": mean_estimate(_over_random(centred)[0]),
        "smollm2-tokens-largest": mean_estimate(centred.largest.values[0]),
        "smollm2-tokens-dims": mean_estimate(
            (tokens.dimensionality_sum / tokens.null_dimensionality_sum).values[0]
        ),
    }
    for kind in ("read", "write"):
        layers = _over_random(_of(data, "smollm2", kind))
        found[f"smollm2-{kind}-random"] = mean_estimate(layers.mean(axis=0))
    writes = _tail(_of(data, "smollm2", "write")).mean(axis=0)
    tails = {"smollm2-tokens-tail": _tail(centred)[0], "smollm2-write-tail": writes}
    # Of few directions no random pair may be in the tail: then there is nothing to compare with.
    some = {name: ratio for name, ratio in tails.items() if np.isfinite(ratio).all()}
    return found | {name: mean_estimate(ratio) for name, ratio in some.items()}


def ours(data: xr.Dataset) -> dict[str, Estimate]:
    """Tokens and neurons of our text model."""
    read = _over_random(_of(data, "ours", "read"))
    return {
        "ours-tokens-above-random": mean_estimate(_over_random(_of(data, "ours", "tokens"))[0]),
        "ours-read-above-random": mean_estimate(read[read.mean(axis=1).argmin()]),
    }


def features(data: xr.Dataset) -> dict[str, Estimate]:
    """Features of our text model, dictionary by dictionary."""
    each = _dictionaries(data, "ours")
    over = _features_over_random(each)
    tokens = _over_random(_of(data, "ours", "tokens"))[0].mean()
    dims = data.dim.values[(data.model == "ours").values & (data.kind == "tokens").values][0]
    used = (each.dimensionality_sum / dims).max()
    return {
        **_of_dictionaries(each, "features"),
        "features-dims-bound": exact(used, each.sizes["seed"]),
        "features-error": mean_estimate(each.error / each.components_error),
        "features-dead": mean_estimate(each.dead, bounds=(0, 1)),
        "features-above-tokens": mean_estimate(over / tokens),
        "features-agree": mean_estimate(each.agreement - each.null_agreement),
    }


def smollm2_features(data: xr.Dataset) -> dict[str, Estimate]:
    """Features of SmolLM2, dictionary by dictionary."""
    return _of_dictionaries(_dictionaries(data, "smollm2"), "smollm2-features")


def _dictionaries(data: xr.Dataset, model: str) -> xr.Dataset:
    """Arrays of the dictionaries of a model, without the ones that diverged."""
    stem = f"{FEATURE[model]}_"
    names = [str(name) for name in data.variables if str(name).startswith(stem)]
    each = data[names].rename({name: name.removeprefix(stem) for name in names})
    return each.isel(seed=np.flatnonzero(np.isfinite(each.error.values)))


def _of_dictionaries(each: xr.Dataset, name: str) -> dict[str, Estimate]:
    """Claims on the features of every model."""
    # The null as it is: what is taken off a random set is no more than its own error.
    null = each.sel(centred=False)
    tail = each.sel(centred=True)["tail"] / null.null_tail
    used = null.dimensionality_sum / null.null_dimensionality_sum
    welch = (each.mean_square / each.welch**2).min()
    return {
        f"{name}-welch": exact(welch, each.sizes["seed"]),
        f"{name}-above-random": mean_estimate(_features_over_random(each)),
        f"{name}-tail": mean_estimate(tail),
        f"{name}-dims": mean_estimate(used),
    }


def _features_over_random(each: xr.Dataset) -> np.ndarray:
    """Mean square overlap of each dictionary, centred, over that of a random one."""
    null = each.null_mean_square.sel(centred=False)
    ratio: np.ndarray = (each.mean_square.sel(centred=True) / null).values
    return ratio


def _of(data: xr.Dataset, model: str, kind: str, centred: bool = True) -> xr.Dataset:
    chosen = (data.model == model).values & (data.kind == kind).values
    return data.isel(set=np.flatnonzero(chosen)).sel(centred=centred)


def _over_random(sets: xr.Dataset) -> np.ndarray:
    """Mean square overlap of each set over that of each random one, ``[set, draw]``."""
    ratio: np.ndarray = (sets.mean_square / sets.null_mean_square).transpose("set", "draw").values
    return ratio


def _tail(sets: xr.Dataset) -> np.ndarray:
    """Share of pairs above the tail's threshold over that of random directions, ``[set, draw]``."""
    ratio: np.ndarray = (sets["tail"] / sets["null_tail"]).transpose("set", "draw").values
    return ratio
