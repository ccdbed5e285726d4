"""Files are whole or absent, and arrays come back as they went."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.records.store import (
    publish,
    read_dataset,
    whole_folder,
    write_dataset,
    write_json,
    write_text,
)


def test_every_type_comes_back(tmp_path: Path) -> None:
    data = xr.Dataset(
        {
            "loss": (("density", "member"), np.arange(6.0).reshape(2, 3), {"unit": "nats"}),
            "alive": (("member",), np.array([True, False, True])),
            "eigenvalue": (("density",), np.array([1 + 2j, -3j])),
            "count": ((), np.int32(3)),
            "half": (("member",), np.zeros(3, np.float16)),
            "label": (("member",), np.array(["a", "bb", "ccc"])),
        },
        {"density": [0.1, 0.7]},
        {"of the dataset": [1, {"deep": None}]},
    )
    attributes = {"none": None, "flag": True, "nested": {"list": [1.5, "two"]}}
    write_dataset(tmp_path / "d.nc", data, attributes)
    found, found_attributes = read_dataset(tmp_path / "d.nc")
    xr.testing.assert_identical(found, data)
    assert {name: v.dtype.kind for name, v in found.data_vars.items()} == {
        name: v.dtype.kind for name, v in data.data_vars.items()
    }
    assert found_attributes == attributes
    assert [path.name for path in tmp_path.iterdir()] == ["d.nc"]


def test_types_without_a_place_are_refused(tmp_path: Path) -> None:
    for value in (np.array([{}], dtype=object), np.array([None], dtype=object)):
        with pytest.raises(ValueError, match="variable 'x' has type object"):
            write_dataset(tmp_path / "d.nc", xr.Dataset({"x": (("a",), value)}), {})
    assert not list(tmp_path.iterdir())


def test_reading_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a record's data file"):
        read_dataset(tmp_path / "absent.nc")
    xr.Dataset({"x": 1.0}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="lacks the attribute 'circuitax'"):
        read_dataset(tmp_path / "foreign.nc")


def test_json_refuses_what_json_has_no_name_for(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_folder_is_whole_or_as_before(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "run"
    with whole_folder(target) as folder:
        write_text(folder / "a" / "one.txt", "1")
        assert not target.exists()
    with pytest.raises(RuntimeError), whole_folder(target) as folder:
        write_text(folder / "two.txt", "2")
        raise RuntimeError
    assert [path.name for path in target.rglob("*.txt")] == ["one.txt"]
    with whole_folder(target) as folder:
        write_text(folder / "three.txt", "3")
    assert [path.name for path in target.rglob("*.txt")] == ["three.txt"]
    assert [path.name for path in target.parent.iterdir()] == ["run"]


def test_publish_replaces(tmp_path: Path) -> None:
    for name in ("new", "old"):
        write_text(tmp_path / name / "text", name)
    publish(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "text").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
