"""Checksums, and a cache that is written once and whole."""

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from circuitax.data.files import cache_folder, fingerprint, write_once


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fingerprint(tmp_path / "a") == known
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fingerprint("~/a") == known
    assert fingerprint(tmp_path / "none") == "absent"


def test_folders_follow_names_and_contents(tmp_path: Path) -> None:
    def folder(name: str, **files: str) -> str:
        for file, text in files.items():
            path = tmp_path / name / file.replace("_", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return fingerprint(tmp_path / name)

    first = folder("one", a="1", b_c="2")
    assert folder("two", a="1", b_c="2") == first
    assert len({first, folder("3", a="2", b_c="1"), folder("4", a="1", b="2"), folder("5")}) == 4
    (tmp_path / "two" / ".git").mkdir()
    (tmp_path / "two" / ".git" / "x").write_text("hidden")
    assert fingerprint(tmp_path / "two") == first
    (tmp_path / "two" / "b" / "c").write_text("3")
    assert fingerprint(tmp_path / "two") != first


def test_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("CIRCUITAX_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("CIRCUITAX_CACHE")
    assert cache_folder() == tmp_path / "xdg/circuitax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/circuitax"


def writes(text: str) -> Callable[[Path], None]:
    def write(new: Path) -> None:
        (new / "b.txt").write_text(text)

    return write


def test_written_once_and_whole(tmp_path: Path) -> None:
    target = tmp_path / "a/b"
    write_once(target, writes("first"))
    write_once(target, writes("second"))
    assert (target / "b.txt").read_text() == "first"


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "deleted", "unmarked", "a file"])
def test_what_is_damaged_is_made_again_and_said(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    target = write_once(tmp_path / "a/b", writes("first"))
    file = target / "b.txt"
    if harm in ("cut", "flipped", "emptied"):
        file.write_text({"cut": "firs", "flipped": "fjrst", "emptied": ""}[harm])
    elif harm == "a file":
        shutil.rmtree(target)
        target.write_text("first")
    else:
        (file if harm == "deleted" else target / ".sha256").unlink()
    write_once(target, writes("second"))
    assert file.read_text() == "second"
    assert [record.getMessage() for record in caplog.records] == [
        "b in the cache is damaged and is made again"
    ]
    assert list(target.parent.iterdir()) == [target]
    write_once(target, writes("third"))
    assert file.read_text() == "second"


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    def write(new: Path) -> None:
        (new / "b.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_once(tmp_path / "b", write)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_threads_race_to_one_result(tmp_path: Path, damaged: bool) -> None:
    target = tmp_path / "result"
    if damaged:
        target.mkdir()
        (target / "b.txt").write_text("old")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: write_once(target, writes("same")), range(32)))
    assert list(tmp_path.iterdir()) == [target]
    assert (target / "b.txt").read_text() == "same"
