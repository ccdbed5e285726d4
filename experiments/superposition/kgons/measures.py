"""Measured values of the claims on k-gons, from a record."""

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, exact, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from experiments.superposition.kgons.claims import LEFT_OUT, TABLE
from experiments.superposition.kgons.plateaus import kgon_losses, nearest_kgon, plateaus

# A curvature counts as 0 below this; the least of all others is 0.0027, of the 8-gon.
LEVEL = 1e-6
N_DRAWS = 40


def measure(record: Record) -> Measured:
    """The measured value of every claim."""
    data = record.data
    of_six = data.potential.sel(k=list(TABLE), n_features=6).min("positive")
    measured = {
        **_misses(data),
        "T9-dead": _left_out(data),
        "T9-hexagon": of_six.idxmin("k"),
    }
    settled = {name: exact(value) for name, value in measured.items()}
    settled["T9-critical"] = exact(data.slope.max())
    settled["T9-curvatures"] = exact(_miscounted(data))
    resting = _plateaus(data, int(record.notes["trained"]))
    if not resting:
        nowhere = "no network rests anywhere"
        return Measured(settled, {"T9-plateaus": nowhere, "T9-higher-first": nowhere})
    return Measured(settled | resting, {})


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: other polygons, random levels."""
    data, n_features = record.data, int(record.notes["trained"])
    draws = []
    for i in range(N_DRAWS):
        found = _plateaus(_moved(data, n_features, np.random.default_rng(i)), n_features)
        draws.append({name: found.get(name) for name in ("T9-plateaus", "T9-higher-first")})
    return {
        "false world": {
            **{name: [value] for name, value in _misses(data, turned=1).items()},
            "T9-dead": [_left_out(data, turned=1)],
            "T9-curvatures": [float(_miscounted(data, turned=1))],
            "T9-critical": [_other_slope(data)],
        },
        "random": {name: [draw[name] for draw in draws] for name in draws[0]},
    }


@measures("T9-bias", "T9-norm", "T9-potential")
def _misses(data: xr.Dataset, turned: int = 0) -> dict[str, float]:
    """Greatest distance from the printed numbers, with polygons in turn in each other's place."""
    norm, bias, own = np.array(list(TABLE.values())).T
    at = data.sel(k=np.roll(list(TABLE), turned))
    found = [data.potential.sel(k=k, n_features=k, positive=0) for k in at.k.values]
    return {
        "T9-norm": float(np.abs(at.norm - norm).max()),
        "T9-bias": float(np.abs(at.bias - bias).max()),
        "T9-potential": float(np.abs(np.array(found) - own).max()),
    }


def _left_out(data: xr.Dataset, turned: int = 0) -> float:
    """Greatest distance from the printed losses with features left out, in turn as in `_misses`."""
    found = [data.potential.sel(k=k, n_features=c, positive=n) for k, c, n in LEFT_OUT]
    return float(np.abs(np.roll(found, turned) - list(LEFT_OUT.values())).max())


def _other_slope(data: xr.Dataset) -> float:
    """Largest entry of the gradient at polygons that have each other's norm and bias, in turn."""
    others = data.isel(k=np.roll(np.arange(data.sizes["k"]), 1))
    norms, biases = others.norm.values, others.bias.values
    return max(kgon_slope(int(k), *at) for k, *at in zip(data.k.values, norms, biases, strict=True))


def kgon_slope(k: int, norm: float, bias: float) -> float:
    """Largest entry of the gradient of the loss at a regular k-gon of its own k features.

    Source: `superposition.tasks.kgons.critical_point`, which needs JAX.
    """
    turn = 2 * np.pi * np.arange(k) / k
    W = norm * np.stack([np.cos(turn), np.sin(turn)])
    gram = W.T @ W
    # Where an output opens: three Gauss nodes to either side integrate the pieces exactly.
    opening = np.clip(-bias / np.where(gram == 0, 1, gram), 0, 1)[..., None]
    nodes, weights = np.polynomial.legendre.leggauss(3)
    share = (nodes + 1) / 2
    x = np.concatenate([opening * share, opening + (1 - opening) * share], axis=-1)
    weight = np.concatenate([opening * weights, (1 - opening) * weights], axis=-1) / 2
    drive = gram[..., None] * x + bias
    pull = 2 * (np.maximum(drive, 0) - x * np.eye(k)[..., None]) * (drive > 0) * weight / k
    of_gram = (pull * x).sum(axis=-1)
    of_W, of_bias = W @ (of_gram + of_gram.T), pull.sum(axis=(1, 2))
    return float(max(np.abs(of_W).max(), np.abs(of_bias).max()))


def _moved(data: xr.Dataset, n_features: int, rng: np.random.Generator) -> xr.Dataset:
    """The networks with losses that end elsewhere, between a k-gon's least and the start's."""
    loss = data.loss.transpose("step", "seed")
    least, start = float(kgon_losses(data, n_features).min()), loss[0].values
    end = np.exp(rng.uniform(np.log(least), np.log(start)))
    return data.assign(loss=loss * (end / loss[-1].values))


@measures("T9-higher-first", "T9-plateaus")
def _plateaus(data: xr.Dataset, n_features: int) -> dict[str, Estimate]:
    """Estimates of k-gons from the networks that rest; none if none rests."""
    resting = _resting(data, n_features)
    if not resting:
        return {}
    only = [bool((at >= 0).all()) for at in resting]
    higher = [bool(((at[:-1] >= 0) & (at[:-1] < at[-1])).any()) for at in resting]
    return {"T9-plateaus": share_estimate(only), "T9-higher-first": share_estimate(higher)}


def _miscounted(data: xr.Dataset, turned: int = 0) -> int:
    """Error of the printed number of curvatures above 0, or of those below.

    Polygons stand in turn in each other's place, as in `_misses`.
    """
    wrong, polygons = 0, data.k.values[1:]  # the 4-gon has drives of exactly 0, at which they jump
    for k, at in zip(polygons, np.roll(polygons, turned), strict=True):
        curvatures = data.curvature.sel(k=at).values
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
