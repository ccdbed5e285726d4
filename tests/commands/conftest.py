"""The experiments of tests/house, run by the real entries with results of the test's own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from circuitax.commands import job, reproduce, run, suite
from circuitax.config import catalogue
from circuitax.lab import runs

HOUSE = Path(__file__).parent.parent / "house"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logging_as_before: None) -> Path:
    """An empty results folder; the compilation cache stays as the test session has it."""
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "results"))
    monkeypatch.setenv(catalogue.VARIABLE, str(HOUSE))
    monkeypatch.setattr(job, "keep_compiled_code", lambda folder: folder)
    # Those of the checkout would be on all pages too, and take half a minute.
    monkeypatch.setattr(reproduce, "accepted_run", accepted_in(tmp_path / "results"))
    return tmp_path / "results"


def accepted_in(folder: Path) -> Callable[[str], Path]:
    """``accepted_run`` of one results folder alone."""

    def found(name: str) -> Path:
        run = folder / name / runs.ACCEPTED
        if not run.is_dir():
            raise ValueError(f"experiment={name} has no accepted run")
        return run

    return found


@pytest.fixture
def walk(results: Path) -> Callable[..., int]:
    """``experiments.run`` on the walk at tiny scale, in this process; its exit status."""

    def call(*arguments: str) -> int:
        return run.main(["experiment=house_walk", "scale=tiny", *arguments])

    return call


@pytest.fixture
def start(results: Path) -> Callable[..., subprocess.Popen]:
    """``python -m module arguments`` as a process of its own."""

    def call(module: str, *arguments: str, **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,  # so that a test can signal all processes of a command
        )

    return call


class Child:
    """``subprocess.Popen`` of experiments.run, in this process."""

    commands: list[list[str]] = []  # noqa: RUF012

    def __init__(self, command: list[str]) -> None:
        Child.commands.append(command)
        self.status = run.main(command[3:])

    def wait(self, timeout: float) -> int:
        return self.status


@pytest.fixture
def stand_in(results: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable], None]:
    """Puts another ``Popen`` into the suite alone; git still needs the real one."""

    def put(popen: Callable) -> None:
        names = ("TimeoutExpired", "PIPE", "STDOUT")
        others = {name: getattr(subprocess, name) for name in names}
        monkeypatch.setattr(suite, "subprocess", SimpleNamespace(Popen=popen, **others))

    return put


@pytest.fixture
def children(stand_in: Callable[[Callable], None]) -> list[list[str]]:
    """The commands of the suite's experiments, which run in this process."""
    stand_in(Child)
    Child.commands = []
    return Child.commands
