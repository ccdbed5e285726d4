"""Measured values of the claims on one perturbed feature, from a record."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, exact, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import beside, shuffled
from circuitax.records.nulls import Nulls
from circuitax.records.record import Record
from circuitax.records.resampled import best_estimate
from circuitax.superposition.polytopes import angles, gaps
from experiments.superposition.shared.crossing import crossing
from experiments.superposition.shared.random_weights import normal_weights, same_norms
from experiments.superposition.shared.transitions import transitions
from experiments.superposition.toy_perturbed.claims import CLAIMS

# A feature is represented when its norm is above this.
REPRESENTED = 0.5
# Two digons have the last feature at 0: its norm is at most this.
ABSENT = 0.1
# A quarter of 72 degrees, by which the gaps of a pentagon may be uneven, and so may its norms: the
# least is this much of the greatest.
UNEVEN, EVEN_NORMS = 18.0, 0.75
# Two features of a digon are at least this nearly opposite, and those of two digons at most this
# nearly alike or opposite: their cosines, of 172 degrees, and of 15 from a right angle.
ANTIPODAL, UPRIGHT = -0.99, float(np.sin(np.radians(15)))
N_DRAWS, N_BENDS = 40, 1000
DIGONS, PENTAGON = 0, 1
RATIOS = (0.3, 0.4, 4.0)
# Ratio at which a pentagon bends, and the gap that bends less.
BENT: dict[str, tuple[float, Callable[[np.ndarray], float]]] = {
    "perturbed-denser": (4.0, np.min),
    "perturbed-sparser": (0.4, np.max),
}


N_SHUFFLED = 1000
# Worlds in which the feature appears without a jump, with a square and with a fourth root in turn.
N_ONSETS = 200
# Draws of each world in which the networks below the crossing are no two digons.
N_UNSNAPPED = 10


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if _wanted(record):
        at = exact_crossing(data)
        found = _exact(data, at) | _trained(data, at) | _bends(data)
        found["perturbed-both"] = _both(data)
    reason = "this run has other ratios or densities, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: starts, random directions, shuffled ratios, and worlds without a snap."""
    data = record.data
    if not _wanted(record):
        return {}
    at, std = exact_crossing(data), float(record.notes["init_std"])
    rngs = [np.random.default_rng(i) for i in range(N_BENDS)]
    weights = (normal_weights(rng, std, *data.W.shape) for rng in rngs)
    starts = [data.assign(W=data.W.copy(data=W)) for W in weights]
    bends = [_bends(start) for start in starts]
    base, rng = base_crossings(data), np.random.default_rng(0)
    base = base[np.isfinite(base)]
    mixed = rng.permuted(np.broadcast_to(base, (N_SHUFFLED, base.size)), axis=1)
    rises = {"perturbed-base-rises": np.diff(mixed).min(axis=1)} if base.size > 1 else {}
    unordered = [shuffled(data, ["W", "loss"], "ratio", rng) for rng in rngs[:N_DRAWS]]
    others = (np.random.default_rng(i) for i in range(N_UNSNAPPED))
    unsnapped = [world for rng in others for world in _unsnapped(data, at, rng)]
    here = _at_crossing(data, at)
    elsewhere = set(range(data.sizes["ratio"] - 1)) - {here}
    onsets = [_onset(data, here, rng, (0.5, 0.25)[i % 2]) for i, rng in enumerate(rngs[:N_ONSETS])]
    step = _exact_step(data, at)
    turns = [turn for i, turn in bends_of_loss(data).items() if abs(i - step) > 1]
    return {
        "permuted": rises,
        "untrained": {name: [draw.get(name) for draw in bends] for name in BENT},
        "random": {"perturbed-both": [_both(_turned(data, rng)) for rng in rngs]},
        "false world": {
            "perturbed-first-order": beside(
                (_step(each, here) for each in onsets), (_step(data, i) for i in elsewhere)
            ),
            "perturbed-trained": [_as_exact(each, at) for each in (*unordered, *unsnapped)],
        },
        "mismatched": {
            "perturbed-slopes": turns or [None],
        },
    }


def _wanted(record: Record) -> bool:
    """Whether a run has what the claims are about, and its exact branches cross."""
    data = record.data
    complete = set(RATIOS) <= set(data.ratio.values.tolist()) and record.notes["density"] == 0.05
    at = exact_crossing(data)
    if not (complete and np.isfinite(at) and bool(data.alive.all())):
        return False
    # A ratio below the crossing, and two above it.
    return 0 <= _at_crossing(data, at) <= data.sizes["ratio"] - 3


def exact_crossing(data: xr.Dataset) -> float:
    """The ratio at which the lower of the exact branches changes; NaN if it does not."""
    branches = dict(zip(data.branch.values, data.exact_loss.values, strict=True))
    changes = transitions(np.log(data.exact_ratio.values), branches)
    return float(np.exp(changes[0].at)) if changes else float("nan")


def base_crossings(data: xr.Dataset) -> np.ndarray:
    """The crossing ratio at every density of the other features; NaN where there is none."""
    at = np.log(data.base_ratio.values)
    found = []
    for losses in data.base_loss.values:
        with np.errstate(invalid="ignore"):
            gap = losses[:, PENTAGON] / losses[:, DIGONS] - 1
        both = np.isfinite(gap)
        found.append(float(np.exp(crossing(at[both], gap[both]))) if both.sum() > 1 else np.nan)
    return np.array(found)


def has_all_five(data: xr.Dataset) -> np.ndarray:
    """Whether a network represents all five features, ``[seed, ratio]``."""
    return (np.linalg.norm(data.W.values, axis=2) > REPRESENTED).all(axis=-1)


def is_pentagon(data: xr.Dataset) -> np.ndarray:
    """Whether a network represents all five features evenly, ``[seed, ratio]``."""
    W = data.W.values
    norm = np.linalg.norm(W, axis=2)
    between = np.array([[gaps(each) for each in row] for row in W])
    even = (np.abs(between - 72) <= UNEVEN).all(axis=-1)
    even &= norm.min(axis=-1) >= EVEN_NORMS * norm.max(axis=-1)
    found: np.ndarray = has_all_five(data) & even
    return found


def is_digons(data: xr.Dataset) -> np.ndarray:
    """Whether a network is two upright antipodal pairs without the last, ``[seed, ratio]``."""
    norm = np.linalg.norm(data.W.values, axis=2)
    others = data.W.values[..., :-1] / np.maximum(norm[..., None, :-1], 1e-12)
    cosine = np.swapaxes(others, -1, -2) @ others
    opposite = cosine <= ANTIPODAL
    apart = opposite | np.eye(cosine.shape[-1], dtype=bool) | (np.abs(cosine) <= UPRIGHT)
    kept = (norm[..., :-1] > REPRESENTED).all(axis=-1) & (norm[..., -1] <= ABSENT)
    found: np.ndarray = kept & opposite.any(axis=-1).all(axis=-1) & apart.all(axis=(-2, -1))
    return found


def own_gaps(W: np.ndarray) -> np.ndarray:
    """Angles from the perturbed feature to its two neighbours, in degrees."""
    turned = (angles(W) - angles(W)[-1]) % 360
    others = np.sort(turned[:-1])
    return np.array([others[0], 360 - others[-1]])


@measures(
    "perturbed-base-rises",
    "perturbed-crossing",
    "perturbed-printed",
    "perturbed-slopes",
)
def _exact(data: xr.Dataset, at: float) -> dict[str, Estimate]:
    """The crossing of the exact branches, and whether it is of first order."""
    base, step, turns = base_crossings(data), _exact_step(data, at), bends_of_loss(data)
    found = {
        "perturbed-crossing": exact(at),
        "perturbed-printed": exact(1 / at),
    }
    if step in turns:
        found["perturbed-slopes"] = exact(turns[step])
    if np.isfinite(base).sum() > 1:
        found["perturbed-base-rises"] = exact(np.diff(base[np.isfinite(base)]).min())
    return found


def bends_of_loss(data: xr.Dataset) -> dict[int, float]:
    """Slope of the lowest exact loss before each step of ratios over that after it, less 1.

    Slopes are over the logarithm of the ratio, in the steps next to it. A step that lacks one of
    them, or a loss there, is left out.
    """
    losses = data.exact_loss.transpose("branch", "exact_ratio").values
    lowest = np.fmin.reduce(np.where(np.isfinite(losses), losses, np.nan))
    slopes = np.diff(lowest) / np.diff(np.log(data.exact_ratio.values))
    turns = slopes[:-2] / slopes[2:] - 1
    return {i + 1: float(turn) for i, turn in enumerate(turns) if np.isfinite(turn)}


def _exact_step(data: xr.Dataset, at: float) -> int:
    """The step of the exact ratios in which the branches cross."""
    return int(np.searchsorted(data.exact_ratio.values, at)) - 1


@measures("perturbed-first-order", "perturbed-trained")
def _trained(data: xr.Dataset, at: float) -> dict[str, Estimate]:
    """Branches of the trained networks."""
    return {
        "perturbed-trained": _as_exact(data, at),
        "perturbed-first-order": _step(data, _at_crossing(data, at)),
    }


def _as_exact(data: xr.Dataset, at: float) -> Estimate:
    """Share of ratios whose best network is of the exact branch that is lower there."""
    agree = np.where(data.ratio.values > at, is_pentagon(data), is_digons(data))
    return best_estimate(data.loss.transpose("seed", "ratio").values, agree)


def _unsnapped(data: xr.Dataset, at: float, rng: np.random.Generator) -> Iterator[xr.Dataset]:
    """The networks where those that are two digons below the crossing are none.

    The last feature has a norm of 0.45 there, at all ratios or growing to it with the ratio; or
    the digons lie on one line, or 20 degrees apart.
    """
    W = data.W.transpose("seed", "ratio", "hidden", "feature")
    ratio, norm = data.ratio.values, np.linalg.norm(W.values, axis=2)
    below = (is_digons(data) & (ratio < at))[..., None, None]
    way = _directions(rng.uniform(0, 2 * np.pi, (*below.shape[:2], 1)))
    for length in (0.45, 0.45 * (ratio / ratio[ratio < at].max())[:, None, None]):
        last = np.concatenate([W.values[..., :-1], length * way], axis=-1)
        yield data.assign(W=W.copy(data=np.where(below, last, W.values)))
    cosine = (W.values[..., :1] * W.values).sum(axis=2) / np.maximum(norm[..., :1] * norm, 1e-12)
    second = (np.abs(cosine) < -ANTIPODAL) & (
        np.arange(W.sizes["feature"]) < W.sizes["feature"] - 1
    )
    first = np.arctan2(W.values[:, :, 1, :1], W.values[:, :, 0, :1])
    for apart in (0, rng.choice([-1, 1]) * np.radians(20)):
        turned = norm[:, :, None] * _directions(first + apart + np.pi * second.cumsum(axis=-1))
        yield data.assign(W=W.copy(data=np.where(below & second[:, :, None], turned, W.values)))


def _directions(angle: np.ndarray) -> np.ndarray:
    """Unit vectors at angles in radians, ``[seed, ratio, hidden, feature]``."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=2)


@measures("perturbed-both")
def _both(data: xr.Dataset) -> Estimate:
    """Share of the rarer kind among the seeds at ratio 0.3."""
    cell = data.sel(ratio=[0.3])
    kinds = np.stack([is_digons(cell)[:, 0], is_pentagon(cell)[:, 0]])
    return share_estimate(kinds[kinds.sum(axis=1).argmin()])


def _turned(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The networks with their norms, in random directions."""
    return data.assign(W=data.W.copy(data=same_norms(rng, data.W.values)))


def _at_crossing(data: xr.Dataset, at: float) -> int:
    """The step of the ratio in which the exact branches cross."""
    return int(np.searchsorted(data.ratio.values, at)) - 1


def _onset(data: xr.Dataset, i: int, rng: np.random.Generator, power: float) -> xr.Dataset:
    """The networks where the feature appears without a jump, as ``(ratio - onset)^power``.

    The onset lies anywhere in the step from ratio i to the next, where the norm is what the power
    leaves of that of the best network at the ratio after it.
    """
    below, above, after = data.ratio.values[i : i + 3]
    onset = rng.uniform(below, above)
    norms = np.linalg.norm(data.W.transpose(..., "hidden", "feature").values, axis=-2)
    best = int(data.loss.transpose("seed", "ratio").values[:, i + 2].argmin())
    grown = norms[best, i + 2, -1] * ((above - onset) / (after - onset)) ** power
    W = data.W.copy()
    scale = grown / np.maximum(norms[:, i + 1, -1], np.finfo(norms.dtype).tiny)
    W[:, i + 1, :, -1] = W.values[:, i + 1, :, -1] * scale[:, None]
    return data.assign(W=W)


def _step(data: xr.Dataset, i: int) -> Estimate:
    """Change of the perturbed feature's norm in the best networks, from one ratio to the next."""
    cells = data.isel(ratio=[i, i + 1]).transpose("seed", "ratio", ...)
    norms = np.linalg.norm(cells.W.values, axis=2)[..., -1]
    return best_estimate(cells.loss.values, norms, over=lambda pair: float(np.diff(pair)[0]))


@measures("perturbed-denser", "perturbed-sparser")
def _bends(data: xr.Dataset) -> dict[str, Estimate]:
    """The perturbed feature's gap that bends less, where all five are, less the even one."""
    found = {}
    for name, (ratio, less_bent) in BENT.items():
        cell = data.sel(ratio=[ratio])
        bent = [less_bent(own_gaps(W)) - 72 for W in cell.W.values[:, 0][has_all_five(cell)[:, 0]]]
        if len(bent) > 1:
            found[name] = mean_estimate(bent)
    return found
