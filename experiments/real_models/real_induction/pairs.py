"""Ranks of pairs of a previous-token and an induction head among all pairs of two layers."""

import numpy as np
import xarray as xr

READINGS = ("Q", "K", "V")


def places(data: "xr.Dataset") -> "xr.DataArray":
    """Share of the other pairs of the same two layers that compose less, from 0 to 1.

    Args:
        data: With ``composition``, ``[reading, layer, head, reader_layer, reader_head]``, of which
            the writer comes first, and the heads of both kinds in ``removed_layer`` and
            ``removed_head``.

    Returns:
        ``[reading, reader, writer]``, heads in the order of their scores; NaN where the induction
        head is not in a later layer.
    """
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    found = np.full((len(READINGS), len(readers), len(writers)), np.nan)
    for i, (later, reader) in enumerate(readers):
        for j, (layer, writer) in enumerate(writers):
            if layer < later:
                pairs = data.composition.sel(layer=layer, reader_layer=later)
                own = pairs.sel(head=writer, reader_head=reader)
                less = (pairs < own).sum(("head", "reader_head"))
                found[:, i, j] = less / (pairs.sizes["head"] * pairs.sizes["reader_head"] - 1)
    return xr.DataArray(
        found, dims=("reading", "reader", "writer"), coords={"reading": [*READINGS]}
    )


def of_pairs(data: "xr.Dataset", values: "xr.DataArray") -> np.ndarray:
    """The values of the same pairs, ``[reader, writer]``, NaN in the same places.

    Args:
        data: As for `places`.
        values: ``[layer, head, reader_layer, reader_head]``.
    """
    readers, writers = heads_of(data, "induction"), heads_of(data, "previous")
    return np.array(
        [
            [
                values.sel(layer=first, head=writer, reader_layer=later, reader_head=reader)
                for first, writer in writers
            ]
            for later, reader in readers
        ],
        float,
    )


def heads_of(data: "xr.Dataset", name: str) -> list[tuple[int, int]]:
    """Layer and head of a set: of the best of a kind, the best first, or of one at random."""
    best = data.sel(without=name)
    layers, heads = best.removed_layer.values.tolist(), best.removed_head.values.tolist()
    return list(zip(layers, heads, strict=True))
