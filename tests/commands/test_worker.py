"""When a worker forgets what it has compiled, and when it ends."""

from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest

from circuitax.commands import worker
from circuitax.commands.job import LAUNCHER
from circuitax.commands.worker import Answer, Job
from circuitax.lab.compilation import Footprint
from circuitax.lab.stop import StopFlag, Stopped

FIRST = Footprint(maps=5000, megabytes=400.0)


@pytest.mark.parametrize(
    ("freed", "compiled", "shrunk", "small"),
    [
        ((0, 150), (1900, 40), [], True),
        ((0, 150), (0, 60), ["freed"], True),
        ((0, 150), (2100, 210), ["freed", "compiled"], True),
        ((0, 0), (2100, 0), ["freed", "compiled"], True),
        ((0, 0), (0, 0), ["freed", "compiled"], False),
    ],
)
def test_compiled_code_is_released_after_freed_memory_only(
    freed: tuple[int, int],
    compiled: tuple[int, int],
    shrunk: list[str],
    small: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Maps and megabytes, free or of code; the last worker has grown by something else."""
    grown = {"freed": freed, "compiled": compiled, "else": (0, 0) if small else (0, 250)}
    done: list[str] = []

    def footprint() -> Footprint:
        maps, megabytes = (sum(part) for part in zip(*grown.values(), strict=True))
        return Footprint(FIRST.maps + maps, FIRST.megabytes + megabytes)

    def shrink(part: str) -> None:
        done.append(part)
        grown[part] = (0, 0)

    monkeypatch.setattr(worker, "footprint", footprint)
    monkeypatch.setattr(worker, "return_freed_memory", lambda: shrink("freed"))
    monkeypatch.setattr(worker, "release_compiled_code", lambda: shrink("compiled"))
    assert worker._small_again(FIRST) is small
    assert done == shrunk


@pytest.mark.parametrize(
    ("job_alone", "scale", "measures_time", "quick"),
    [
        (True, "quick", False, True),
        (True, "tiny", False, True),
        (True, "evening", False, False),
        (True, "quick", True, False),
        (False, "quick", False, False),
    ],
)
def test_only_small_runs_of_a_suite_are_compiled_quickly(
    job_alone: bool,
    scale: str,
    measures_time: bool,
    quick: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = SimpleNamespace(alone=measures_time)
    settings = SimpleNamespace(scale=SimpleNamespace(name=scale))
    seen: list[str] = []
    monkeypatch.setenv("XLA_FLAGS", "--xla_a=1")
    monkeypatch.setattr(
        worker, "plan", lambda *_: ([], [SimpleNamespace(entry=entry, settings=settings)])
    )
    monkeypatch.setattr(
        worker, "compute_planned", lambda *_, **__: seen.append(worker.os.environ["XLA_FLAGS"])
    )
    with StopFlag() as stop:
        worker.compute_job(Job("one", (), tmp_path, job_alone), stop)
    expected = "--xla_a=1 --xla_backend_optimization_level=1"
    assert seen[0].startswith(expected) if quick else seen == ["--xla_a=1"]


@pytest.mark.parametrize("alone", [False, True])
def test_a_stop_is_no_error_and_a_job_of_its_own_process_ends_it(
    alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = Pipe()
    done: list[str] = []

    def compute_job(job: Job, stop: StopFlag) -> None:
        done.append(job.name)
        if job.name == "told":
            stop.number = 15
            raise Stopped(15)

    monkeypatch.setenv(LAUNCHER, "the process that sweeps")
    monkeypatch.setattr(worker, "compute_job", compute_job)
    monkeypatch.setattr(worker, "one_device_a_core", lambda: None)
    monkeypatch.setattr(worker, "release_compiled_code", lambda: None)
    monkeypatch.setattr(worker, "_small_again", lambda first: True)
    monkeypatch.setattr(worker.gc, "freeze", lambda: None)
    for name in ("first", "told", "after"):
        here.send(Job(name, (), tmp_path, alone))
    worker.serve(there, None)
    expected = [Answer("", None, True)] if alone else [Answer("", None, False)]
    expected += [] if alone else [Answer("", 15, True)]
    assert [here.recv() for _ in expected] == expected and not here.poll()
    assert done == (["first"] if alone else ["first", "told"])
    # Whether a signal concerns the job alone is told by who launched it.
    assert (worker.os.environ[LAUNCHER] == worker.this_process()) is alone
