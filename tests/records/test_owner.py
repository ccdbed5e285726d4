"""An owner is alive, gone, or not to be judged from here."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from circuitax.records import owner
from circuitax.records.owner import State, state, this_process


@pytest.fixture(params=["kernel", "ps", "neither"])
def told_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """By /proc where it is, by ps, as on macOS, and without either by its number alone."""
    if request.param != "kernel":
        exists = Path.exists
        monkeypatch.setattr(
            Path, "exists", lambda path: path != Path("/proc/self/stat") and exists(path)
        )
        if request.param == "neither":
            monkeypatch.setattr(owner.subprocess, "run", lambda *_, **__: os.stat("/no/such/ps"))
            yield
            return
        told = subprocess.run(["ps", "-o", "lstart=", "-p", str(os.getpid())], capture_output=True)
        if told.returncode:
            pytest.skip("no ps here that says when a process started")
    elif not Path("/proc/self/stat").exists():
        pytest.skip("no /proc here")
    yield


def test_a_process_and_one_that_has_ended(told_by: None) -> None:
    code = "import sys; print('there', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"there\n"
    word = f"{child.pid}-{owner._started(child.pid)}-{this_process().split('-')[2]}"
    assert state(word) is State.alive and state(this_process()) is State.alive
    child.communicate()
    assert state(word) is State.gone


def test_others_of_the_same_number(told_by: None, monkeypatch: pytest.MonkeyPatch) -> None:
    number, started, host = this_process().split("-")
    assert number == str(os.getpid())
    assert state(f"{number}-{started}1-{host}") is State.gone
    assert state(number) is State.unknown, "an earlier version wrote no more"
    monkeypatch.setattr(owner.socket, "gethostname", lambda: "another")
    assert state(f"{number}-{started}-{host}") is State.unknown
