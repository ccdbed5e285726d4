"""One process at a time, and the dead hold nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from circuitax.lab.lock import Busy, lock

HOLD = """
import sys, time
from pathlib import Path
from circuitax.lab.lock import lock
with lock(Path(sys.argv[1]), "x"):
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
            lock(path, "run a/b"),
        ):
            pass
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert path.exists()  # a kill leaves the file, which means nothing
    with lock(path, "run a/b"):
        assert path.read_text() == str(os.getpid())
    assert not path.exists()


def test_an_error_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), lock(tmp_path / "l", "x"):
        raise RuntimeError
    with lock(tmp_path / "l", "x"):
        pass


def test_the_same_process_cannot_take_it_twice(tmp_path: Path) -> None:
    with lock(tmp_path / "l", "x"), pytest.raises(Busy), lock(tmp_path / "l", "x"):
        pass
