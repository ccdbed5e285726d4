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
