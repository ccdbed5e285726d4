"""Measured values of the claims on learning dynamics, from a record."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.stats import special_ortho_group

from circuitax.records.claims import unmet_rest
from circuitax.records.estimate import Estimate, geometric_estimate, mean_estimate, share_estimate
from circuitax.records.measured import Measured, measures
from circuitax.records.null_draws import shuffled
from circuitax.records.nulls import Draws, Nulls
from circuitax.records.record import Record
from experiments.superposition.shared.random_weights import dimensionalities, normal_weights
from experiments.superposition.toy_dynamics.claims import CLAIMS
from experiments.superposition.toy_dynamics.kinks import half_fallen, kinks, smooth_fall
from experiments.superposition.toy_dynamics.sets import (
    SIZE,
    across,
    in_antipodal_pairs,
    inside,
    is_octahedron,
)

STEPS = (6000, 6000)  # of both trainings at the scale that the claims are about
DENSITY = 1 / 3  # of equal features, for which the next losses are
# Least exact loss of a digon, of a parallel pair, and of a feature without a direction.
DIGON, PARALLEL, DROPPED = 0.035977, 1 / 12, 1 / 12
ABOVE = 1.03  # final loss over that of digons
LEVELS = (0.0, 0.5)
LEVEL_WIDTH = 0.1
DIGON_WIDTH = 0.05
FIRST = 0.1  # share of training that is left out, in which everything moves
WINDOW = 0.05  # share of training in which a jump should happen
SEPARATED, OPENED = 0.8, 0.5  # mean cosine inside a set
COARSE, FINE = 0.02, 0.005  # allowed error of the straight pieces over the range of log loss
N_DRAWS = 20
PLANE = 0.25  # a singular value over the first, below which W lacks its direction
APART = 15  # degrees by which two sets may miss a right angle
PHASE = 0.05  # share of training that is a phase


class Regimes(NamedTuple):
    """First step of each regime in each seed, in this order; NaN where it never occurs."""

    separated: np.ndarray
    opened: np.ndarray
    octahedron: np.ndarray


def measure(record: Record) -> Measured:
    """The measured value of every claim that this run can settle, and why it cannot the others."""
    data = record.data
    found: dict[str, Estimate] = {}
    if _wanted(record):
        found = _levels(data) | _octahedron(data)
        found["dynamics-digons"] = _digons(data, record.notes["n_hidden"])
        found["dynamics-drops"] = mean_estimate(drop_correlation(data))
        reason = "no feature changes level, no two losses have a kink, or there is no octahedron"
        return Measured(found, unmet_rest(CLAIMS, found, reason))
    reason = "this run has another length or density, or networks that diverged"
    return Measured(found, {}, unmet_rest(CLAIMS, found, reason))


def nulls(record: Record) -> Nulls:
    """Draws of the nulls: starts, other seeds' kinks, smooth falls, drifts, staying features."""
    data, m = record.data, record.notes["n_hidden"]
    if not _wanted(record):
        return {}
    rngs = [np.random.default_rng(i) for i in range(N_DRAWS)]
    even = xr.zeros_like(data.dimensionality) + data.dimensionality.isel(step=[0, -1]).interp(
        step=data.step
    )

    def mixed(rng: np.random.Generator) -> xr.Dataset:
        return shuffled(data, ["set_W"], "set_feature", rng, ["seed"])

    def turned(rng: np.random.Generator) -> xr.Dataset:
        W = data.set_W.values.copy()
        turns = special_ortho_group.rvs(W.shape[2], size=W.shape[1], random_state=rng)
        W[..., SIZE:] = turns @ W[..., SIZE:]
        return data.assign(set_W=(data.set_W.dims, W))

    return {
        "untrained": _untrained(data, m, rngs),
        "mismatched": _mismatched(data),
        "false world": {
            "dynamics-digons": [_digons(data.assign(loss=data.loss + PARALLEL - DIGON), m)],
            "dynamics-levels": [*_between(data, drifts=True).values()],
            "dynamics-sudden": [*_sudden(data.assign(dimensionality=even)).values()],
            "dynamics-drops": [mean_estimate(drop_correlation(data, staying=True))],
            **{name: [value] for name, value in _of_smooth_falls(data).items()},
        },
        "random": {"dynamics-plane": [_plane(f(rng)) for f in (mixed, turned) for rng in rngs]},
        "permuted": {
            "dynamics-regimes": [
                _ordered(shuffled(data, ["set_W"], "set_step", rng, ["seed"])) for rng in rngs
            ],
            "dynamics-across": [_across(mixed(rng)).get("dynamics-across") for rng in rngs],
        },
    }


def on_level(dimensionality: np.ndarray, width: float = LEVEL_WIDTH) -> np.ndarray:
    """Whether each D_i is within ``width`` of 0 or of that of a digon."""
    return np.min([np.abs(dimensionality - level) for level in LEVELS], axis=0) <= width


def passages(dimensionality: np.ndarray) -> list[list[float]]:
    """Shares of training that features of each seed take from one level to the other.

    From the last measurement on the one to the first on the other; two in a row count as on a
    level.

    Args:
        dimensionality: ``[step, seed, feature]``, at even steps.
    """
    on = _twice_on(dimensionality)
    level = np.where(on.any(axis=-1), on.argmax(axis=-1), -1)
    found: list[list[float]] = [[] for _ in range(level.shape[1])]
    for seed, rows in enumerate(level.transpose(1, 2, 0)):
        for row in rows:
            for left, reached in pairwise(np.flatnonzero(row >= 0)):
                if row[left] != row[reached]:
                    found[seed].append(float(reached - left - 1) / len(row))
    return found


def stays(dimensionality: np.ndarray) -> np.ndarray:
    """Whether each D_i is on the same level at a measurement and at the next one."""
    return np.asarray(_twice_on(dimensionality).any(axis=-1))


def _twice_on(dimensionality: np.ndarray) -> np.ndarray:
    """Whether each D_i is on each of `LEVELS` at a measurement and at the next one."""
    near = np.abs(dimensionality[..., None] - np.array(LEVELS)) <= LEVEL_WIDTH
    both: np.ndarray = near[1:] & near[:-1]
    return both


def motion_and_fall(data: xr.Dataset, staying: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Motion of D_i between two measurements, and fall of log loss, after `FIRST`.

    Args:
        data: Data of a record.
        staying: Whether the motion is that of features that stay on a level, or of all others.
    """
    late = data.isel(step=data.step.values >= FIRST * data.step.values[-1])
    d = late.dimensionality.values
    moved = np.abs(np.diff(d, axis=0)).sum(axis=-1, where=stays(d) == staying)
    return moved, -np.diff(np.log(late.loss.values), axis=0)


def drop_correlation(data: xr.Dataset, staying: bool = False) -> list[float]:
    """Correlation over time of `motion_and_fall`, each less its mean over seeds, for each seed.

    Args:
        data: With two seeds or more.
        staying: As in `motion_and_fall`.
    """
    rows = motion_and_fall(data, staying)
    moved, fell = (each - each.mean(axis=1, keepdims=True) for each in rows)
    return [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(moved.T, fell.T, strict=True)]


def regimes(data: xr.Dataset) -> Regimes:
    """First steps of the regimes of sets: one direction each, then open, then an octahedron."""
    W, steps = data.set_W.values, data.set_step.values
    mean = inside(W)
    separated = _first(steps, (mean >= SEPARATED) & (across(W).mean(axis=(-1, -2)) <= OPENED))
    after = steps[:, None] > separated
    opened = _first(steps, (mean <= OPENED) & after)
    return Regimes(separated, opened, _first(steps, is_octahedron(W)))


def loss_kinks(data: xr.Dataset, tolerance: float = FINE) -> list[np.ndarray]:
    """Kinks of the logarithm of every seed's loss."""
    rows = np.log(data.set_loss.values.T)
    return [kinks(data.set_step.values, row, tolerance=tolerance) for row in rows]


def slopes(data: xr.Dataset, seed: int, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places at which pieces of a seed's log loss end, and how fast it falls on each piece."""
    steps, log_loss = data.set_step.values, np.log(data.set_loss.values[:, seed])
    ends = np.searchsorted(steps, [steps[0], *found, steps[-1]])
    return ends, -np.diff(log_loss[ends]) / np.diff(steps[ends])


def falls(slope: np.ndarray) -> int:
    """Pieces that are steeper than both of their neighbours."""
    around = np.concatenate([[-np.inf], slope, [-np.inf]])
    return int(((slope > around[:-2]) & (slope > around[2:])).sum())


def onset(data: xr.Dataset) -> np.ndarray:
    """Step at which sets begin to open: a tenth of the way from closest to last, ``[seed]``."""
    mean, steps = inside(data.set_W.values), data.set_step.values
    closest = mean.max(axis=0)
    after = np.arange(len(steps))[:, None] > mean.argmax(axis=0)
    return _first(steps, (mean <= closest - 0.1 * (closest - mean[-1])) & after)


def _first(steps: np.ndarray, true: np.ndarray) -> np.ndarray:
    return np.where(true.any(axis=0), steps[true.argmax(axis=0)].astype(float), np.nan)


def _wanted(record: Record) -> bool:
    """Whether a run has the length and density of the claims, and no network diverged."""
    data = record.data
    if not np.isclose(record.notes["density"], DENSITY):
        return False
    last = (int(data.step.values[-1]), int(data.set_step.values[-1]))
    return last == STEPS and bool(data.alive.all()) and bool(data.set_alive.all())


@measures("dynamics-digons")
def _digons(data: xr.Dataset, m: int) -> Estimate:
    """Share of seeds that end on `LEVELS` with the loss of ``m`` digons."""
    ends = on_level(data.dimensionality.values[-1], DIGON_WIDTH).all(axis=-1)
    best = m * DIGON + (data.sizes["feature"] - 2 * m) * DROPPED
    return share_estimate(ends & (data.loss.values[-1] <= ABOVE * best))


@measures("dynamics-levels")
def _between(data: xr.Dataset, drifts: bool = False) -> dict[str, Estimate]:
    """Share on a level from `FIRST` to a seed's last crossing of 1/4, of seeds with one after it.

    With ``drifts`` each D_i goes evenly from its first value to its last until then.
    """
    d, steps = data.dimensionality.values, np.arange(data.sizes["step"])[:, None]
    crossed = np.diff(d > np.mean(LEVELS), axis=0).any(axis=-1)
    last = np.where(crossed.any(axis=0), len(crossed) - crossed[::-1].argmax(axis=0), 0)
    first = FIRST * (len(d) - 1)
    if drifts:
        d = d[0] + (d[-1] - d[0]) * np.minimum(1, steps / np.maximum(last, 1))[..., None]
    window = ((steps >= first) & (steps <= last))[:, last > first]
    shares = np.average(on_level(d).mean(axis=-1)[:, last > first], axis=0, weights=window)
    return {"dynamics-levels": mean_estimate(shares, bounds=(0, 1))} if shares.size else {}


@measures("dynamics-levels-middle")
def _levels(data: xr.Dataset) -> dict[str, Estimate]:
    """Levels of the equal features."""
    d = data.dimensionality.values
    share = data.step.values / data.step.values[-1]
    middle = (share >= FIRST) & (share < 0.5)
    return {
        "dynamics-levels-middle": mean_estimate(on_level(d[middle]).mean(axis=(0, 2))),
        **_between(data),
        **_sudden(data),
    }


def sudden(dimensionality: np.ndarray) -> list[float]:
    """Share of the passages of a seed that take `WINDOW` of training at most, of seeds with one."""
    return [float(np.mean(np.array(row) <= WINDOW)) for row in passages(dimensionality) if row]


@measures("dynamics-sudden")
def _sudden(data: xr.Dataset) -> dict[str, Estimate]:
    """Passages that are jumps, if there are any passages."""
    shares = sudden(data.dimensionality.values)
    return {"dynamics-sudden": mean_estimate(shares, bounds=(0, 1))} if shares else {}


@measures("dynamics-octahedron")
def _octahedron(data: xr.Dataset) -> dict[str, Estimate]:
    """Regimes of the two sets."""
    coarse, fine = loss_kinks(data, COARSE), loss_kinks(data)
    return {
        "dynamics-octahedron": share_estimate(is_octahedron(data.set_W.values[-1])),
        "dynamics-regimes": _ordered(data),
        "dynamics-plane": _plane(data),
        **_across(data),
        **_pieces(data, coarse, fine),
        **_openings(data, coarse, fine),
    }


@measures("dynamics-across")
def _across(data: xr.Dataset) -> dict[str, Estimate]:
    """Share of the networks in antipodal pairs that have them across the sets, if there are any."""
    W = data.set_W.values[-1]
    paired = in_antipodal_pairs(W)
    return {"dynamics-across": share_estimate(is_octahedron(W)[paired])} if paired.any() else {}


@measures("dynamics-regimes")
def _ordered(data: xr.Dataset) -> Estimate:
    """Share of seeds in which the regimes follow one another."""
    when = regimes(data)
    return share_estimate((when.separated < when.opened) & (when.opened < when.octahedron))


@measures("dynamics-falls", "dynamics-kinks")
def _pieces(
    data: xr.Dataset, coarse: list[np.ndarray], fine: list[np.ndarray]
) -> dict[str, Estimate]:
    """Kinks and falls of the loss."""
    count = [falls(slopes(data, seed, row)[1]) for seed, row in enumerate(fine)]
    return {
        "dynamics-kinks": share_estimate([row.size >= 2 for row in coarse]),
        "dynamics-falls": share_estimate(np.array(count) >= 3),
    }


def _of_smooth_falls(data: xr.Dataset) -> dict[str, Estimate]:
    """Kinks and falls where each loss is one smooth fall."""
    steps = data.set_step.values
    rows = [smooth_fall(steps, row) for row in data.set_loss.values.T]
    smooth = data.assign(set_loss=(data.set_loss.dims, np.stack(rows, axis=1)))
    return _pieces(smooth, loss_kinks(smooth, COARSE), loss_kinks(smooth))


@measures("dynamics-plane")
def _plane(data: xr.Dataset) -> Estimate:
    """Share of seeds in which W is two separated sets in a plane for `PHASE` of training.

    Antipodal sets on a line are no plane: a linear model's two components are at right angles.
    """
    W = data.set_W.values
    first, second, third = np.moveaxis(np.linalg.svd(W, compute_uv=False), -1, 0)
    there = (third <= PLANE * first) & (PLANE * first < second) & (inside(W) >= SEPARATED)
    there &= np.abs(across(W).mean(axis=(-1, -2))) <= np.sin(np.radians(APART))
    long = round(PHASE * (len(there) - 1))
    runs = np.lib.stride_tricks.sliding_window_view(there, long, axis=0).all(axis=-1)
    return share_estimate(runs.any(axis=0))


@measures("dynamics-kink-*")
def _openings(
    data: xr.Dataset, coarse: list[np.ndarray], fine: list[np.ndarray], shift: int = 0
) -> dict[str, Estimate]:
    """Distance of kinks to an opening, the seed one ``shift`` later having the one or the other."""
    opens = np.roll(onset(data), -shift)
    half = half_fallen(data.set_step.values, data.set_loss.values)
    near = {
        "": [_near_opening(data, coarse, shift)],
        "-fine": [_near_opening(data, fine, 0, zero, opens) for zero in (0.0, half)],
    }
    return {
        f"dynamics-kink-opening{grain}": max(map(geometric_estimate, rows), key=lambda e: e.value)
        for grain, rows in near.items()
        if min(map(len, rows)) >= 2
    }


def _mismatched(data: xr.Dataset) -> dict[str, Draws]:
    """Kinks, or openings, of other seeds: of the next one, of the one after it, and so on."""
    coarse, fine = loss_kinks(data, COARSE), loss_kinks(data)
    found: dict[str, list[Estimate | None]] = {}
    for shift in range(1, min(N_DRAWS + 1, data.sizes["seed"])):
        draw = _openings(data, coarse, fine, shift)
        for name in ("dynamics-kink-opening", "dynamics-kink-opening-fine"):
            found.setdefault(name, []).append(draw.get(name))
    return {**found}


def _untrained(
    data: xr.Dataset, n_hidden: int, rngs: list[np.random.Generator]
) -> dict[str, Draws]:
    """Networks at their start: of equal features by their law, of two sets as the record has it."""
    shape = (data.sizes["step"], data.sizes["seed"], n_hidden, data.sizes["feature"])
    draws = []
    for rng in rngs:
        d = dimensionalities(normal_weights(rng, 1, *shape[1:]))
        start = np.broadcast_to(d, (shape[0], *d.shape))
        draws.append(_levels(data.assign(dimensionality=(data.dimensionality.dims, start))))
    return {
        "dynamics-levels-middle": [draw["dynamics-levels-middle"] for draw in draws],
        "dynamics-octahedron": [share_estimate(is_octahedron(data.set_W.values[0]))],
    }


def _near_opening(
    data: xr.Dataset,
    found: list[np.ndarray],
    shift: int,
    since: np.ndarray | float = 0.0,
    begins: np.ndarray | None = None,
) -> np.ndarray:
    """Log of the distance from `onset`, or ``begins``, to a kink over those to others' kinks.

    One a seed; its times are counted from its own in ``since``.
    """
    steps, zeros = data.set_step.values, since + np.zeros(len(found))
    opens = (onset(data) if begins is None else begins) - zeros
    # A distance below half a measurement is not known.
    least = 0.5 * (steps[1] - steps[0])
    rows = (row - zero for row, zero in zip(found, zeros, strict=True))
    nearest = [np.abs(opens[:, None] - row).min(axis=1, initial=np.inf) for row in rows]
    log = np.log(np.maximum(nearest, least)).T  # of each opening, to each seed's kinks
    own = np.roll(np.eye(len(log), dtype=bool), shift, axis=1)
    others = np.isfinite(log) & ~own & ~np.eye(len(log), dtype=bool)
    with np.errstate(invalid="ignore"):  # no other seed has a kink
        near = log[own] - np.where(others, log, 0).sum(axis=1) / others.sum(axis=1)
    return near[np.isfinite(near)]
