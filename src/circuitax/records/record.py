"""A record: everything that one run of an experiment found, as labelled arrays and numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from circuitax.records.estimate import Estimate, estimate_from_json, finite_or_none
from circuitax.records.store import read_dataset, write_dataset, write_json, write_text

DATA = "data.nc"
SCALARS = "scalars.json"
TABLES = "tables"
# Longer tables are no use as text; the arrays are in the data file.
LONGEST_TABLE = 100_000


@dataclass
class Record:
    """What a run found.

    Attributes:
        data: Arrays with named dimensions and coordinates (density, member, layer, ...).
        measured: Numbers with their intervals, by the names that the claims use.
        unmet: Claims whose precondition was not met, by id, with the reason.
        notes: Plain JSON values worth keeping (selection rule, diverged members, conventions).
    """

    data: xr.Dataset = field(default_factory=xr.Dataset)
    measured: dict[str, Estimate] = field(default_factory=dict)
    unmet: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write ``data.nc``, ``scalars.json`` and tidy tables; ``load`` needs the first only."""
        scalars = {
            name: finite_or_none(estimate._asdict()) for name, estimate in self.measured.items()
        }
        attributes = {"measured": scalars, "unmet": self.unmet, "notes": self.notes}
        write_dataset(folder / DATA, self.data, attributes)
        write_json(folder / SCALARS, attributes)
        for name, text in tidy_tables(self.data):
            write_text(folder / TABLES / f"{name}.csv", text)

    @classmethod
    def load(cls, folder: Path) -> "Record":
        """Read the record of a run folder.

        Raises:
            ValueError: If the folder holds no whole record.
        """
        data, attributes = read_dataset(Path(folder) / DATA)
        measured = {
            name: estimate_from_json(fields) for name, fields in attributes["measured"].items()
        }
        return cls(data, measured, attributes["unmet"], attributes["notes"])


def tidy_tables(data: xr.Dataset) -> Iterator[tuple[str, str]]:
    """One CSV text for each set of dimensions: a row a cell, a column a variable.

    Tables of more than ``LONGEST_TABLE`` rows are left out.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, variable in data.data_vars.items():
        groups.setdefault(tuple(sorted(map(str, variable.dims))), []).append(str(name))
    for dims, names in sorted(groups.items()):
        part = data[names]
        rows = 1
        for dim in dims:
            rows *= part.sizes[dim]
        if rows > LONGEST_TABLE:
            continue
        if dims:
            frame = part.to_dataframe(dim_order=list(part[names[0]].dims)).reset_index()
        else:
            frame = part.expand_dims("row").to_dataframe().reset_index(drop=True)
        yield "-".join(dims) or "values", frame.to_csv(index=False)
