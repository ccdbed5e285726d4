"""Draws of a null from a saved record: the same measure on records that are altered."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import xarray as xr

from circuitax.records.estimate import Estimate
from circuitax.records.measured import Measured
from circuitax.records.record import Record


def measured_again(
    measure: Callable[[Record], Measured], records: Iterable[Record]
) -> dict[str, list[Estimate | None]]:
    """Draws of all quantities: the measure of each altered record.

    A quantity that one of them lacks is None there: its precondition is not met.

    Args:
        measure: ``measure`` of the experiment.
        records: Altered records, one a draw.
    """
    found = [measure(record).estimates for record in records]
    names = {name: None for estimates in found for name in estimates}
    return {name: [estimates.get(name) for estimates in found] for name in names}


def beside(
    draws: Iterable[Estimate | None], worlds: Iterable[Estimate | None]
) -> list[Estimate | None]:
    """Each draw, or the world that is nearest to holding where that is nearer than the draw.

    Worlds that do not vary are few; among many draws one that holds would not count. For claims of
    at least so much: the nearer one has the greater lower end.

    Args:
        draws: Draws of a null, None where a precondition is not met.
        worlds: Outcomes of altered records, likewise.
    """
    worlds = list(worlds)

    def nearest(draw: Estimate | None) -> Estimate | None:
        there = [each for each in (draw, *worlds) if each is not None]
        return max(there, key=lambda each: each.low, default=None)

    return [nearest(draw) for draw in draws]


def with_data(record: Record, data: xr.Dataset) -> Record:
    """The record with other data and the same notes."""
    return Record(data, record.notes)


def shuffled(
    data: xr.Dataset,
    names: Sequence[str],
    dim: str,
    rng: np.random.Generator,
    each: Sequence[str] = (),
) -> xr.Dataset:
    """The data with variables shuffled along a dimension, all of them by one permutation.

    What relates them to each other stays; what relates them to the other variables is lost.

    Args:
        data: Data of a record.
        names: Variables that are shuffled; each has ``dim`` and all of ``each``.
        dim: Dimension along which they are shuffled; its coordinates stay in place.
        rng: Source of the permutations.
        each: Dimensions, such as ``"seed"``, of which every entry has a permutation of its own.

    Raises:
        ValueError: If a variable lacks one of the dimensions.
    """
    needed = (*each, dim)
    for name in names:
        missing = [item for item in needed if item not in data[name].dims]
        if missing:
            raise ValueError(f"names={name!r} must have the dimensions {needed}, lacks {missing}")
    shape = tuple(data.sizes[item] for item in needed)
    order = rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
    changed = {}
    for name in names:
        array = data[name].transpose(*needed, ...)
        where = order.reshape(order.shape + (1,) * (array.ndim - order.ndim))
        moved = np.take_along_axis(array.values, where, axis=len(each))
        changed[name] = array.copy(data=moved).transpose(*data[name].dims)
    return data.assign(changed)
