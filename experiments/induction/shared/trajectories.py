"""Training as paths in the plane of largest variance of losses on single tokens."""

import numpy as np
import xarray as xr

from experiments.induction.shared.phase_change import at_step


def own_planes(token_losses: np.ndarray) -> np.ndarray:
    """Training as paths in the plane of largest variance of each member's losses on single tokens.

    Takes ``[arm, step, member, token]``, of which each member has its own; returns places ``[arm,
    step, member, component]``, NaN where a loss is not finite, or with fewer finite models. Axes
    have no direction: each is turned the way that the first member goes along it.
    """

    def places_of(losses: np.ndarray) -> np.ndarray:
        flat = losses.reshape(-1, losses.shape[-1])
        finite = np.isfinite(flat).all(axis=1)
        if finite.sum() <= 2:
            return np.full((*losses.shape[:-1], 2), np.nan)
        centred = flat - flat[finite].mean(axis=0)
        axes = np.linalg.svd(centred[finite], full_matrices=False)[2]
        return (centred @ axes[:2].T).reshape(*losses.shape[:-1], 2)

    places = np.stack([places_of(losses) for losses in np.moveaxis(token_losses, 2, 0)], axis=2)
    along = np.nansum(places * places[:, :, :1], axis=(0, 1))
    return np.where(along < 0, -places, places)


def turning(places: xr.DataArray, start: xr.DataArray, end: xr.DataArray) -> xr.DataArray:
    """Degrees between the way to a step and the way on from another, of every member.

    A change that begins or ends with training has a way on one side alone, and no turn.
    """
    before = at_step(places, start) - places.isel(step=0)
    after = places.isel(step=-1) - at_step(places, end)
    lengths = ((before**2).sum("component") * (after**2).sum("component")) ** 0.5
    cosine = (before * after).sum("component") / lengths.where(lengths > 0)
    return cosine.copy(data=np.degrees(np.arccos(cosine.clip(-1, 1).values))).fillna(0)
