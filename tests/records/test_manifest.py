"""Damage is found, and the file is named."""

from pathlib import Path

import pytest

from circuitax.data.files import checksum
from circuitax.records.store import checksums, contents, damage, write_manifest


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
