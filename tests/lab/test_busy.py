"""One process at a time, and the dead hold nothing."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from circuitax.lab.busy import Busy, held

HOLD = """
import sys, time
from pathlib import Path
from circuitax.lab.busy import held
with held(Path(sys.argv[1]), "x"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_named_until_it_dies(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "held\n"
        with (
            pytest.raises(Busy, match=f"run a/b is being computed by process {child.pid};"),
            held(path, "run a/b"),
        ):
            pass
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert path.exists()  # a kill leaves the file, which means nothing
    with held(path, "run a/b"):
        assert path.read_text() == str(os.getpid())
    assert not path.exists()


def test_an_error_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), held(tmp_path / "l", "x"):
        raise RuntimeError
    with held(tmp_path / "l", "x"):
        pass


def test_the_same_process_cannot_take_it_twice(tmp_path: Path) -> None:
    with held(tmp_path / "l", "x"), pytest.raises(Busy), held(tmp_path / "l", "x"):
        pass


def test_a_waiter_never_takes_a_file_that_is_gone(tmp_path: Path) -> None:
    """The holder removes the file while it holds it; a lock on the removed file would be none."""
    path = tmp_path / "l"
    with held(path, "x"):
        path.unlink()
        with held(path, "y"):
            assert path.read_text() == str(os.getpid())
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(OSError, match=r"run a/b needs a file system with locks.*CIRCUITAX_RESULTS"),
        held(tmp_path / "l", "run a/b"),
    ):
        pass


def test_a_disk_that_takes_no_file_is_not_one_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *options: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="No space left") as caught, held(tmp_path / "l", "x"):
        pass
    assert caught.value.errno == errno.ENOSPC
