import errno
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from circuitax.data.files import CacheError, cache_folder, write_once


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


def test_a_target_that_cannot_be_made_raises(tmp_path: Path) -> None:
    (tmp_path / "parent").write_text("a file where a folder should be")
    with pytest.raises(CacheError, match=r"parent' cannot be written .*CIRCUITAX_CACHE"):
        write_once(tmp_path / "parent" / "c", writes("text"))


def test_a_full_disk_is_said_of_the_cache_and_leaves_nothing(tmp_path: Path) -> None:
    def full(new: Path) -> None:
        (new / "half").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    def unread(new: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "corpus.txt")

    with pytest.raises(CacheError, match=r"' cannot be written \(No space left on device\): make"):
        write_once(tmp_path / "c", full)
    with pytest.raises(PermissionError, match=r"corpus\.txt"):
        write_once(tmp_path / "c", unread)
    assert not [*tmp_path.iterdir()]
