"""Files are whole or absent, and arrays come back as they went."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from circuitax.data.files import checksum
from circuitax.records import store
from circuitax.records.store import (
    checksums,
    contents,
    damage,
    publish,
    read_dataset,
    whole_folder,
    write_bytes,
    write_dataset,
    write_json,
    write_manifest,
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


def test_many_small_arrays_take_little_more_than_their_numbers(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    data = xr.Dataset({f"x{i}": (("a", f"b{i}"), draws.random((8, 50))) for i in range(40)})
    write_dataset(tmp_path / "d.nc", data, {})
    numbers = sum(value.nbytes for value in data.values())
    # In the format of HDF5 before 1.10 it is 2.2 times as much.
    assert (tmp_path / "d.nc").stat().st_size < 1.5 * numbers
    # The versions that other programs read; a later one would need a later HDF5.
    with h5py.File(tmp_path / "d.nc") as file:
        assert file.id.get_create_plist().get_version()[0] in (2, 3)


def test_large_arrays_are_packed_and_come_back_bit_for_bit(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    causal = np.tril(rng.normal(size=(20, 48, 48))).astype(np.float32)
    causal[0, 1, 0] = np.nan
    kept = {"pattern": causal, "wide": rng.normal(size=(9000,)), "n": np.arange(8000)}
    data = xr.Dataset(
        {name: ([f"{name}_{i}" for i in range(a.ndim)], a) for name, a in kept.items()}
    )
    write_dataset(tmp_path / "data.nc", data, {})
    again, _ = read_dataset(tmp_path / "data.nc")
    for name, array in kept.items():
        assert again[name].dtype == array.dtype
        np.testing.assert_array_equal(again[name].to_numpy(), array)
    # Of the pattern a half is zeros, and whole numbers in order are next to nothing.
    assert (tmp_path / "data.nc").stat().st_size < 0.65 * causal.nbytes + 9000 * 8


def test_the_packing_of_another_file_is_not_taken_over(tmp_path: Path) -> None:
    """Arrays read from a file that rounds them: what was computed from these is kept whole."""
    data = xr.Dataset(
        {"loss": ("step", [0.123456789, 2.5])}, {"step": ("step", [0, 7], {"of": "a"})}
    )
    rounding = {"dtype": "int16", "scale_factor": 0.01}
    data["loss"].encoding, data["step"].encoding = dict(rounding), {"dtype": "int8"}
    before = data.copy(deep=True)
    write_dataset(tmp_path / "data.nc", data, {})
    found, _ = read_dataset(tmp_path / "data.nc")
    np.testing.assert_array_equal(found.loss, [0.123456789, 2.5])
    assert found.step.dtype == np.int64
    xr.testing.assert_identical(data, before)
    assert data.loss.encoding == rounding, "the caller's arrays stay as they are"


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


def test_a_data_file_cut_short_is_damaged(tmp_path: Path) -> None:
    write_dataset(tmp_path / "d.nc", xr.Dataset({"x": (("a",), np.arange(100.0))}), {})
    whole = (tmp_path / "d.nc").read_bytes()
    for size in (0, 10, len(whole) // 2):
        (tmp_path / "d.nc").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"path='d.nc' is damaged"):
            read_dataset(tmp_path / "d.nc")


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


KILLED = """
import os, signal, sys
from pathlib import Path
from circuitax.records import store

folder, target, renames = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
original, done = Path.rename, []

def rename(self, other):
    if len(done) == renames:
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(self)
    return original(self, other)

Path.rename = rename
def rmtree(path, ignore_errors):
    if len(done) == renames:
        os.kill(os.getpid(), signal.SIGKILL)

store.shutil.rmtree = rmtree
store.publish(folder, target)
"""


@pytest.mark.parametrize(("renames", "there"), [(0, "old"), (2, ""), (3, "new")])
def test_a_kill_between_the_renames_leaves_a_whole_folder_or_none(
    tmp_path: Path, renames: int, there: str
) -> None:
    target = tmp_path / "runs [x]" / "run"
    write_text(target / "text", "old")
    write_text(tmp_path / "new" / "text", "new")
    arguments = [str(tmp_path / "new"), str(target), str(renames)]
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments])
    assert done.returncode == -signal.SIGKILL
    assert (target / "text").read_text() == there if there else not target.exists()
    (old,) = [path for path in target.parent.iterdir() if path.suffix == ".old"] or [target]
    assert (old / "text").is_file(), "what was there before is not lost"
    write_text(tmp_path / "newer" / "text", "newer")
    publish(tmp_path / "newer", target)
    assert (target / "text").read_text() == "newer"
    assert list(target.parent.iterdir()) == [target]


def test_work_may_be_on_another_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename, copytree = Path.rename, shutil.copytree

    def between_disks(path: Path, other: Path) -> Path:
        if path.parent != other.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return rename(path, other)

    def cut_short(folder: Path, new: Path) -> Path:
        with monkeypatch.context() as as_it_was:
            as_it_was.setattr(shutil, "copytree", copytree)
            copytree(folder, new)
        (new / "deep" / "text").write_text("ne")
        return new

    monkeypatch.setattr(Path, "rename", between_disks)
    work, target = tmp_path / "disk" / "whole", tmp_path / "results" / "run"
    write_text(target / "deep" / "text", "old")
    write_text(work / "deep" / "text", "new")
    monkeypatch.setattr(store.shutil, "copytree", cut_short)
    with pytest.raises(OSError, match="Input/output error") as caught:
        publish(work, target)
    assert caught.value.filename.endswith("deep/text")
    assert (target / "deep" / "text").read_text() == "old" and (work / "deep" / "text").is_file()
    assert [path.name for path in target.parent.iterdir()] == ["run"]
    monkeypatch.setattr(store.shutil, "copytree", copytree)
    publish(work, target)
    assert (target / "deep" / "text").read_text() == "new" and not work.exists()
    assert [path.name for path in target.parent.iterdir()] == ["run"]


def test_a_rename_that_fails_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refused(path: Path, other: Path) -> Path:
        if path.name == "new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(path, other)

    for name in ("new", "run"):
        write_text(tmp_path / name / "text", name)
    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(OSError, match="No space left"):
        publish(tmp_path / "new", tmp_path / "run")
    assert (tmp_path / "run" / "text").read_text() == "run"


def test_what_is_published_is_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    flush, rename = store._flush, Path.rename
    monkeypatch.setattr(store, "_flush", lambda path: (events.append(path.name), flush(path)))
    monkeypatch.setattr(Path, "rename", lambda a, b: (events.append("rename"), rename(a, b)))
    write_text(tmp_path / "new" / "deep" / "file", "")
    publish(tmp_path / "new", tmp_path / "target")
    assert sorted(events[:3]) == ["deep", "file", "new"]
    assert events[3:] == ["rename", tmp_path.name]


def full(path: Path) -> Path:
    """A file to write whose temporary copy stands on a device that is full."""
    path.with_name(f".{path.name}.{os.getpid()}.tmp").symlink_to("/dev/full")
    return path


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "data.nc"
    path.write_text("before")
    data = xr.Dataset({"loss": ("member", np.arange(20_000.0))})
    for write in (
        lambda: write_bytes(full(path), b"after"),
        lambda: write_text(full(path), "after"),
        lambda: write_dataset(full(path), data, {}),  # HDF5 itself would end the process
    ):
        with pytest.raises(OSError, match=r"No space left on device: '.*/data\.nc'") as caught:
            write()
        assert caught.value.errno == errno.ENOSPC
        assert path.read_text() == "before" and [*tmp_path.iterdir()] == [path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("data.nc", "arrays/w.bin", "claims.json", "figures/a.png", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    write_manifest(tmp_path, left_out=("claims.json", "figures"))
    return tmp_path


def test_a_checksum_is_the_one_that_everyone_knows(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert checksum(tmp_path / "a") == known
    assert checksums(tmp_path, ["a", "b"]) == {"a": known, "b": ""}


def test_each_kind_of_damage_names_the_file(folder: Path) -> None:
    assert damage(folder) == ""
    for name in ("data.nc", "arrays/w.bin"):
        good = (folder / name).read_bytes()
        for bad in (b"", good[:-1], bytes([good[0] ^ 1]) + good[1:]):
            (folder / name).write_bytes(bad)
            assert damage(folder) == f"{name} is damaged"
        (folder / name).unlink()
        assert damage(folder) == f"{name} is missing"
        (folder / name).write_bytes(good)
    for text in ("", "[]", "{}", '{"sha256": 3}'):
        (folder / "manifest.json").write_text(text)
        assert damage(folder) == "manifest.json is damaged"
    (folder / "manifest.json").unlink()
    assert damage(folder) == "manifest.json is missing"


def test_what_is_made_again_does_not_count(folder: Path) -> None:
    for name in ("claims.json", "figures/a.png", ".hidden"):
        (folder / name).write_text("other")
    assert damage(folder) == ""


def test_contents_follow_the_files_named(folder: Path) -> None:
    first = contents(folder, ["data.nc", "arrays"])
    assert contents(folder, ["data.nc"]) != first
    (folder / "log.txt").write_text("x")
    write_manifest(folder)
    assert contents(folder, ["data.nc", "arrays"]) == first
    (folder / "arrays/w.bin").write_text("x")
    write_manifest(folder)
    assert contents(folder, ["data.nc", "arrays"]) != first
