"""Altered data of the nulls of the claims on several sizes: other windows, curves and heads."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate, mean_estimate
from experiments.induction.shared.head_roles import NO_MATCH, PREFIX_SCORE

# Losses on tokens that continue a repeat, and that break it, by the claim on each.
KINDS = {"depth-gain": "on_repeat", "depth-loss": "on_break"}
# How near to holding a draw is: of each and the few made by hand the nearest is judged.
REACH: dict[str, Callable[[Estimate], float]] = {
    "depth-gain": lambda draw: -draw.high,
    "depth-loss": lambda draw: draw.low,
}


def beside_change(part: xr.Dataset) -> list[xr.Dataset]:
    """Members whose change is said to be the sixth of training before it, and that behind it."""
    start, end, steps = part.jump_start, part.jump_end, part.step.values
    before = part.assign(jump_start=(2 * start - end).clip(min=steps[0]), jump_end=start)
    return [before, part.assign(jump_start=end, jump_end=(2 * end - start).clip(max=steps[-1]))]


def as_large(part: xr.Dataset, second: xr.Dataset) -> xr.Dataset:
    """Losses on tokens multiplied to what those of two layers change by in all of training."""
    scale = {kind: _whole(second[kind]) / _whole(part[kind]) for kind in KINDS.values()}
    return part.assign({kind: part[kind] * factor for kind, factor in scale.items()})


def _whole(losses: xr.DataArray) -> float:
    return float((losses.isel(step=-1) - losses.isel(step=0)).mean())


def through_others(part: xr.Dataset, kind: str, n_draws: int) -> list[Estimate]:
    """What losses change by, each member read through the window of another, drawn anew.

    Args:
        part: Members of one size, with ``jump_start`` and ``jump_end`` of each.
        kind: Losses ``[step, member]`` that are read.
        n_draws: Draws; a single member has none.
    """
    members, rng = np.arange(part.sizes["member"]), np.random.default_rng(0)
    if members.size < 2:
        return []
    before, after = (
        part[kind].interp(step=part[name].rename(member="window")).transpose("member", "window")
        for name in ("jump_start", "jump_end")
    )
    change = after.values - before.values
    windows = (members + rng.integers(1, members.size, (n_draws, members.size))) % members.size
    return [mean_estimate(change[members, drawn]) for drawn in windows]


def heads_shuffled(part: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """One size with prefix scores and eigenvalues shuffled among the heads of each layer.

    Prefix scores go to heads behind the first layer alone, which can match prefixes.
    """
    changed = {}
    for name, first in (("prefix", 1), ("eigenvalues", 0)):
        values = part[name].transpose("member", "layer", "head").values.copy()
        heads = values[:, first : int(part.n_layers)]
        values[:, first : int(part.n_layers)] = rng.permuted(heads, axis=-1)
        changed[name] = (("member", "layer", "head"), values)
    return part.assign(changed)


def all_in_corner(parts: list[xr.Dataset]) -> list[xr.Dataset]:
    """Sizes whose heads that do not match have the greatest scores that there are."""
    names = ("eigenvalues", "matching")
    return [
        part.assign({name: part[name].where(part.prefix >= PREFIX_SCORE, 1.0) for name in names})
        for part in parts
    ]


def idle_in(parts: list[xr.Dataset], name: str, rng: np.random.Generator) -> list[xr.Dataset]:
    """Sizes whose matching heads have a score of heads that match nothing; none without these."""
    later = [part.isel(layer=slice(1, None)) for part in parts]
    idle = [part[name].where(part.prefix < NO_MATCH).values.ravel() for part in later]
    pool = np.concatenate(idle)
    pool = pool[np.isfinite(pool)]
    found: list[xr.Dataset] = []
    if not pool.size:
        return found
    for part in parts:
        drawn = part.prefix.copy(data=rng.choice(pool, part.prefix.shape))
        found.append(part.assign({name: part[name].where(~(part.prefix >= PREFIX_SCORE), drawn)}))
    return found
