"""The experiments of tests/house, run by the real entries with results of the test's own."""

import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path

import pytest

from circuitax.commands import job, reproduce, run, workers
from circuitax.commands.status import STATUS, leave
from circuitax.commands.worker import Answer, Job
from circuitax.commands.workers import Worker
from circuitax.config import catalogue
from circuitax.config.command_line import quoted
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
    """A worker in this process: a job is computed when it is sent, and its answer is ready."""

    jobs: list[Job] = []  # noqa: RUF012

    def __init__(self, show: Callable[[str], None] | None) -> None:
        self._here, self._there = Pipe()

    def worker(self) -> Worker:
        return Worker(self, self)

    def send(self, job: Job) -> None:
        self.job = job
        Child.jobs.append(job)
        self.compute(job)

    def compute(self, job: Job) -> None:
        run.main([*job.overrides, quoted("hydra.run.dir", str(job.folder))])
        self.answer()

    def answer(self, stopped: int | None = None) -> None:
        self._there.send(Answer("", stopped, True))

    def leave(self, status: str) -> None:
        leave(self.job.folder / STATUS, self.job.overrides, status, "")

    def recv(self) -> Answer:
        return self._here.recv()

    def fileno(self) -> int:
        return self._here.fileno()

    def join(self) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def child() -> type[Child]:
    """The stand-in for a worker, for others that derive from it."""
    return Child


@pytest.fixture
def stand_in(results: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Puts a stand-in for the processes of the pool."""

    def put(child: type[Child]) -> None:
        monkeypatch.setattr(workers, "start_worker", lambda show: child(show).worker())
        Child.jobs = []

    return put


@pytest.fixture
def children(stand_in: Callable[[type], None]) -> list[Job]:
    """The jobs of the suite's experiments, which run in this process."""
    stand_in(Child)
    return Child.jobs
