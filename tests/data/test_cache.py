from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from circuitax.data.cache import cache_folder, write_once


def test_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("CIRCUITAX_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("CIRCUITAX_CACHE")
    assert cache_folder() == tmp_path / "xdg/circuitax"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache/circuitax"


def test_written_once_and_whole(tmp_path: Path) -> None:
    target = tmp_path / "a/b.txt"
    write_once(target, lambda new: new.write_text("first") and None)
    write_once(target, lambda new: new.write_text("second") and None)
    assert target.read_text() == "first"


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    def write(new: Path) -> None:
        new.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_once(tmp_path / "b.txt", write)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", [False, True])
def test_threads_race_to_one_result(tmp_path: Path, folder: bool) -> None:
    def write(new: Path) -> None:
        if folder:
            new.mkdir()
            (new / "x").write_text("same")
        else:
            new.write_text("same")

    target = tmp_path / "result"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: write_once(target, write), range(32)))
    assert list(tmp_path.iterdir()) == [target]
    assert (target / "x" if folder else target).read_text() == "same"


def test_a_target_that_cannot_be_made_raises(tmp_path: Path) -> None:
    # `write` made nothing, so there is nothing to rename.
    with pytest.raises(FileNotFoundError):
        write_once(tmp_path / "c.txt", lambda new: None)
