"""The skip-trigrams of each head, by source token."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from circuitax.display.viewers import Viewer, visible
from circuitax.records.record import Record


def view(run: Path) -> list[Viewer]:
    """The tables of the first seed's heads."""
    data = Record.load(run).data
    names = [visible(str(name), 12) for name in data.token.values]
    heads = [
        {"name": f"0.{head}", "rows": _rows(data.isel(head=head), names)}
        for head in range(data.sizes["head"])
    ]
    text = (
        "Hover or focus a source token. A one-layer model is a table of triples: where a source "
        "stood before and the text is at a token that looks back at it, the head raises what "
        "often came next. Listed are the sources whose largest score times largest raise is "
        "greatest, of the first seed; scores and raises are read from the weights alone."
    )
    return [Viewer("tokenTables", "Skip-trigrams of a one-layer model", text, {"heads": heads})]


def _rows(table: xr.Dataset, names: list[str]) -> list[dict[str, Any]]:
    return [
        {
            "source": names[int(table.sources[i])],
            "destinations": _pairs(table.destinations.values[i], table.scores.values[i], names),
            "outs": _pairs(table.outs.values[i], table.raises.values[i], names),
        }
        for i in range(table.sizes["row"])
    ]


def _pairs(ids: np.ndarray, values: np.ndarray, names: list[str]) -> list[list[Any]]:
    return [[names[int(i)], round(float(x), 3)] for i, x in zip(ids, values, strict=True)]
