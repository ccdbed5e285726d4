"""Controls: records in which a sentence is false, by names that tables use.

A world is a function of a record's data and a source of randomness that gives other data; the same
reading is taken of it. An experiment adds its own in ``WORLDS`` of its readings, where none of
these fits.
"""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

World = Callable[[xr.Dataset, np.random.Generator], xr.Dataset]


def swap(dim: str, of: Sequence[object]) -> World:
    """The first two arms change places: what is read of one is read of the other."""
    first, second = of

    def world(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
        labels = data[dim].values
        order = np.arange(len(labels))
        places = [int(np.flatnonzero(labels == label)[0]) for label in (first, second)]
        order[places] = places[::-1]
        return data.isel({dim: order}).assign_coords({dim: data[dim]})

    return world


def at_start(dim: str) -> World:
    """Every entry along a dimension, such as the step of training, is the first one."""

    def world(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
        held = data.isel({dim: np.zeros(data.sizes[dim], int)})
        return held.assign_coords({dim: data[dim]})

    return world


def shuffle(dim: str, variables: Sequence[str], each: Sequence[str] = ()) -> World:
    """Variables shuffled along a dimension by one permutation, one for each entry of ``each``."""

    def world(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
        needed = (*each, dim)
        shape = tuple(data.sizes[name] for name in needed)
        order = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
        return data.assign({name: _moved(data[name], order, needed) for name in variables})

    return world


def roll(dim: str, variables: Sequence[str]) -> World:
    """Variables of the next unit, or one some places on: what belongs to one against another."""

    def world(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
        by = int(rng.integers(1, data.sizes[dim]))
        moved = {name: data[name].roll({dim: by}, roll_coords=False) for name in variables}
        return data.assign(moved)

    return world


def random_like(variables: Sequence[str], along: str) -> World:
    """Gaussian directions in the place of vectors, each with the norm of the one it replaces."""

    def world(data: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
        changed = {}
        for name in variables:
            array = data[name].astype(float)
            drawn = array.copy(data=rng.normal(size=array.shape))
            length = np.sqrt((array**2).sum(along)) / np.sqrt((drawn**2).sum(along))
            changed[name] = (drawn * length).transpose(*array.dims)
        return data.assign(changed)

    return world


def _moved(array: xr.DataArray, order: np.ndarray, dims: Sequence[str]) -> xr.DataArray:
    front = array.transpose(*dims, ...)
    where = order.reshape(order.shape + (1,) * (front.ndim - order.ndim))
    moved = np.take_along_axis(front.values, where, axis=len(dims) - 1)
    return front.copy(data=moved).transpose(*array.dims)


# Names of tables, with the arguments that a table gives.
GENERIC: dict[str, Callable[..., World]] = {
    "swap": swap,
    "at_start": at_start,
    "shuffle": shuffle,
    "roll": roll,
    "random_like": random_like,
}
# Worlds that do not vary have one draw.
FIXED = {"swap", "at_start"}
