import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from circuitax.lab import runs
from circuitax.lab.places import about_the_place, in_one_line, require_results


def test_the_results_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "a" / "b"))
    assert require_results() == tmp_path / "a" / "b"
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "file" / "results"))
    with pytest.raises(ValueError, match=r"file/results' cannot be written .*CIRCUITAX_RESULTS="):
        require_results()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_full_disk_is_named_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_a_full_disk(dir: Path, buffering: int) -> object:
        return open("/dev/full", "wb", buffering=buffering)

    monkeypatch.setattr(tempfile, "TemporaryFile", on_a_full_disk)
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=r"No space left on device\): make room, or name another"):
        require_results()


def test_a_folder_that_was_not_copied_is_about_the_disk(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").write_text("text")

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    with pytest.raises(shutil.Error) as caught:  # it has no number of its own
        shutil.copytree(tmp_path / "from", tmp_path / "to", copy_function=full)
    assert "cannot be written (No space left on device)" in about_the_place(caught.value)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_errors_of_the_disk_are_one_line(number: int) -> None:
    text = about_the_place(OSError(number, os.strerror(number), "/some/where"))
    assert text.startswith(f"'/some/where' cannot be written ({os.strerror(number)})")
    assert "CIRCUITAX_RESULTS" in text and "CIRCUITAX_CACHE" in text and "\n" not in text


def test_a_name_that_is_too_long_is_cut() -> None:
    error = OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000)
    assert about_the_place(error) == (
        f"the name '{'x' * 60}...' of 5000 characters is too long for the disk"
    )


def test_other_errors_are_none_of_the_disk() -> None:
    assert about_the_place(FileNotFoundError(errno.ENOENT, "no such file", "weights")) == ""


def test_any_error_is_one_line_that_says_what_it_is() -> None:
    place = OSError(errno.EACCES, "Permission denied", "/a/figures")
    assert in_one_line(place) == about_the_place(place) != ""
    assert in_one_line(KeyError("position")) == "KeyError: 'position'"
