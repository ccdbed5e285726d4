"""Records on disk, and the tidy tables beside them."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from circuitax.records import record as record_module
from circuitax.records.record import Record, members_where, tidy_tables
from circuitax.records.store import write_dataset


def make() -> Record:
    data = xr.Dataset(
        {
            "loss": (("density", "member"), np.arange(6.0).reshape(2, 3)),
            "kept": (("member", "density"), np.arange(6).reshape(3, 2) % 2 == 0),
            "norm": (("density",), [1.0, 2.0]),
            "total": ((), 4.5),
        },
        {"density": [0.1, 0.7]},
    )
    return Record(data, {"rule": [1, None]})


def test_comes_back(tmp_path: Path) -> None:
    record = make()
    record.save(tmp_path)
    found = Record.load(tmp_path)
    xr.testing.assert_identical(found.data, record.data)
    assert found.notes == record.notes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.nc", "tables"]


def test_it_prints_axes_and_arrays_in_twenty_lines() -> None:
    lines = repr(make()).splitlines()
    assert lines[1] == "axes: density 2, member 3"
    assert "  kept (member, density)" in lines and lines[-1] == "notes: rule"
    many = Record(xr.Dataset({f"a{i}": ("x" * (1 + i), [1.0]) for i in range(40)}), {"n" * 200: 1})
    lines = repr(many).splitlines()
    assert len(lines) == 20 and max(map(len, lines)) <= 100 and "and 24 more" in lines[-2]


def test_older_files_hold_more(tmp_path: Path) -> None:
    """Records used to hold what was measured too; it is made from the data now."""
    record = make()
    older = {"measured": {"a": {}}, "unmet": {}, "notes": record.notes}
    write_dataset(tmp_path / "data.nc", record.data, older)
    xr.testing.assert_identical(Record.load(tmp_path).data, record.data)
    assert Record.load(tmp_path).notes == record.notes


def test_tables_are_tidy() -> None:
    tables = {name: pd.read_csv(io.StringIO(text)) for name, text in tidy_tables(make().data)}
    assert sorted(tables) == ["density", "density-member", "values"]
    table = tables["density-member"]  # one table, though one variable is transposed
    assert list(table.columns) == ["density", "member", "loss", "kept"]
    row = table[(table.density == 0.7) & (table.member == 2)].iloc[0]
    assert (row.loss, row.kept) == (5.0, False)
    assert tables["values"].iloc[0].total == 4.5


def test_long_tables_are_left_to_the_data_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_module, "LONGEST_TABLE", 5)
    assert [name for name, _ in tidy_tables(make().data)] == ["values", "density"]


def test_loading_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be that of a run, which holds data\.nc"):
        Record.load(tmp_path)
    make().save(tmp_path / "one")
    for folder in (tmp_path, tmp_path / "two"):
        with pytest.raises(ValueError, match=r"must be that of a run: there are .*one"):
            Record.load(folder)


ARMS = xr.Dataset(
    {
        "loss": (("arm", "member"), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]),
        "alive": (("arm", "member"), [[True, False, True], [False, False, True]]),
        "full_alive": ("full_member", [False, True]),
        "full_loss": ("full_member", [7.0, 8.0]),
        "found": ("member", [False, False, False]),
        "learned": ("member", [True, True, False]),
    },
    coords={"arm": ["a", "b"]},
)


def test_members_of_one_arm() -> None:
    np.testing.assert_array_equal(members_where(ARMS.sel(arm="a")).loss, [0.0, 2.0])
    np.testing.assert_array_equal(members_where(ARMS.isel(arm=1)).loss, [5.0])


def test_the_axis_is_that_of_the_mask() -> None:
    found = members_where(ARMS, "full_alive")
    np.testing.assert_array_equal(found.full_loss, [8.0])
    assert found.sizes["member"] == 3


def test_a_mask_may_be_computed() -> None:
    both = ARMS.alive.any("arm")
    np.testing.assert_array_equal(members_where(ARMS.loss, both).sel(arm="b"), [3.0, 5.0])


def test_otherwise_is_taken_only_where_nobody_is_left() -> None:
    one = ARMS.sel(arm="a")
    found = members_where(one, "found", otherwise="alive")
    np.testing.assert_array_equal(found.loss, [0.0, 2.0])
    found = members_where(one, "learned", otherwise="alive")
    np.testing.assert_array_equal(found.loss, [0.0, 1.0])
    assert members_where(one, "found").sizes["member"] == 0


def test_an_arm_must_be_chosen_first() -> None:
    with pytest.raises(ValueError, match=r"mask 'alive' has axes \('arm', 'member'\)"):
        members_where(ARMS)
