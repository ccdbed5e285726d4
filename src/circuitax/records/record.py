"""A record: the results of one run of an experiment, as labelled arrays and notes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from circuitax.display.tables import fact_table
from circuitax.records.store import read_dataset, write_dataset, write_text

Labelled = TypeVar("Labelled", xr.Dataset, xr.DataArray)
DATA = "data.nc"
RESULTS = Path("results")
TABLES = "tables"
# Longer tables are of no use as text; all arrays are in the data file.
LONGEST_TABLE = 10_000
ARRAYS, LONGEST_LINE = 17, 100  # of what is printed


@dataclass(repr=False)
class Record:
    """The results of a run.

    Attributes:
        data: Arrays with named dimensions and coordinates (density, member, layer, ...).
        notes: Plain JSON values worth keeping (sizes, diverged members, conventions).
    """

    # Asked for by name, and annotated in quotes: a run starts without xarray, which is slow.
    data: "xr.Dataset" = field(default_factory=lambda: xr.Dataset())
    notes: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Axes with their sizes, arrays with their axes, and names of notes, in twenty lines."""
        arrays = [
            f"  {name} ({', '.join(map(str, array.dims))})"
            for name, array in self.data.data_vars.items()
        ]
        if len(arrays) > ARRAYS:
            arrays = [*arrays[: ARRAYS - 1], f"  and {len(arrays) - ARRAYS + 1} more"]
        sizes = ", ".join(f"{name} {size}" for name, size in self.data.sizes.items())
        lines = [
            "Record, with an xarray dataset in .data and a dict in .notes",
            f"axes: {sizes or 'none'}",
            *arrays,
            *([f"notes: {', '.join(self.notes)}"] if self.notes else []),
        ]
        fit = LONGEST_LINE - 4
        return "\n".join(x if len(x) <= LONGEST_LINE else f"{x[:fit]} ..." for x in lines)

    def _repr_html_(self) -> str:
        """The labelled arrays and the notes, for a notebook."""
        notes = {name: str(note)[:200] for name, note in self.notes.items()}
        return str(self.data._repr_html_()) + (fact_table("Notes", notes) if notes else "")

    @property
    def noted(self) -> "xr.Dataset":
        """The arrays with the notes as attributes: what readings and figures take."""
        return self.data.assign_attrs(self.notes)

    def save(self, folder: Path) -> None:
        """Write ``data.nc``, which ``load`` reads, and a tidy CSV table for each set of axes."""
        write_dataset(folder / DATA, self.data, {"notes": self.notes})
        for name, text in tidy_tables(self.data):
            write_text(folder / TABLES / f"{name}.csv", text)

    @classmethod
    def load(cls, folder: Path | str) -> "Record":
        """Read the record of a run folder.

        Raises:
            ValueError: If the folder holds no whole record; the message lists the runs below it, or
                below ``results/``.
        """
        folder = Path(folder)
        if not (folder / DATA).is_file():
            raise ValueError(f"folder={str(folder)!r} must be that of a run{_runs_near(folder)}")
        data, attributes = read_dataset(folder / DATA)
        return cls(data, attributes["notes"])


def _runs_near(folder: Path) -> str:
    """The folders of runs that may have been meant, the newest first."""
    for place in (folder, RESULTS / folder, *([] if folder.exists() else [folder.parent])):
        files = sorted(place.glob(f"*/{DATA}"), key=lambda file: -file.stat().st_mtime)
        if files:
            return f": there are {', '.join(str(file.parent) for file in files[:6])}" + (
                f" and {len(files) - 6} more" if len(files) > 6 else ""
            )
    return f", which holds {DATA}"


def tidy_tables(data: "xr.Dataset") -> Iterator[tuple[str, str]]:
    """One CSV text for each set of dimensions: one row per cell, one column per variable.

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


def members_where(
    data: Labelled, mask: str | xr.DataArray = "alive", *, otherwise: str | None = None
) -> Labelled:
    """The part of the data whose members satisfy a mask, in order.

    ``members_where(data.sel(arm="2 layers"))`` are the members of one arm that stayed finite. The
    mask decides the axis: ``member``, or another one such as ``run`` or ``full_member``.

    Args:
        data: Labelled arrays.
        mask: Name of a variable of truth values over one axis, or the variable itself.
        otherwise: A second mask, taken where no member satisfies the first.

    Raises:
        ValueError: If the mask has not exactly one axis: select an arm or a depth first.
    """
    chosen = data[mask] if isinstance(mask, str) else mask
    if otherwise is not None and not bool(chosen.any()):
        chosen = data[otherwise]
    if len(chosen.dims) != 1:
        name = mask if isinstance(mask, str) else mask.name
        raise ValueError(f"mask {name!r} has axes {chosen.dims}, it must have one, the members'")
    (axis,) = chosen.dims
    return data.isel({axis: np.flatnonzero(chosen.values)})
