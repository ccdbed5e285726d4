"""Signals and kills, with real processes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from circuitax.commands import job
from circuitax.lab.conduct import conduct
from circuitax.lab.runs import finished_runs
from circuitax.records.record import Record

ARGUMENTS = ("experiments.run", "experiment=house_walk", "scale=tiny", "n_steps=60")


def wait_for_chunks(results: Path, process: subprocess.Popen, chunks: int, runs: int = 1) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        written = [path.read_text() for path in results.glob(".work/*/metrics.jsonl")]
        if sum(text.count("\n") >= chunks for text in written) == runs:
            return
        time.sleep(0.05)
    process.kill()
    pytest.fail(f"no chunk was written: {process.communicate()}")


@pytest.mark.slow
def test_stop_busy_and_resume(
    start: Callable[..., subprocess.Popen], results: Path, walk: Callable[..., int]
) -> None:
    first = start(*ARGUMENTS, HOUSE_WALK_DELAY="1")
    wait_for_chunks(results, first, 3)
    second = start(*ARGUMENTS)
    _, said = second.communicate(timeout=120)
    assert second.returncode == 1
    assert f"is being computed by process {first.pid}" in said and "Traceback" not in said
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 143
    assert "stopped; the same command resumes" in said and "Traceback" not in said
    assert not finished_runs("house_walk")
    (written,) = results.glob(".work/*/metrics.jsonl")
    done = written.read_text().count("\n")
    assert 3 <= done < 60
    third = start(*ARGUMENTS)
    _, said = third.communicate(timeout=120)
    assert third.returncode == 0 and "resumed" in said
    resumed = Record.load(finished_runs("house_walk")[0])
    assert [path.name for path in (results / ".work").iterdir()] == ["hydra"]
    finished_runs("house_walk")[0].rename(results / "kept")
    assert walk("n_steps=60") == 0
    straight = Record.load(finished_runs("house_walk")[0])
    np.testing.assert_allclose(
        straight.data["position"], resumed.data["position"], rtol=1e-6, atol=1e-7
    )
    assert straight.data["position"].sizes["chunk"] == 60


@pytest.mark.slow
def test_workers_of_a_sweep_save_before_it_ends(
    start: Callable[..., subprocess.Popen], results: Path
) -> None:
    sweep = ("-m", "hydra/launcher=cores", "hydra.launcher.n_jobs=2", "seed=0,1,2")
    process = start(*ARGUMENTS, *sweep, HOUSE_WALK_DELAY="0.5")
    wait_for_chunks(results, process, 2, runs=2)
    os.killpg(process.pid, signal.SIGTERM)  # as a cluster does; the parent passes it on as well
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "stopped; the same command resumes" in said
    assert len(list(results.glob(".work/*/loops/walk/metrics-*"))) == 2  # the third never began


@pytest.mark.slow
def test_a_kill_leaves_no_half_run(
    start: Callable[..., subprocess.Popen], results: Path, walk: Callable[..., int]
) -> None:
    process = start(*ARGUMENTS, HOUSE_WALK_DELAY="0.5")
    wait_for_chunks(results, process, 2)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (results / "house_walk").exists()
    assert walk("n_steps=60") == 0  # the lock of the dead is no hindrance
    assert Record.load(finished_runs("house_walk")[0]).data["position"].sizes["chunk"] == 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_jobs", "number"),
    [(1, signal.SIGTERM), (3, signal.SIGINT)],
    ids=["1-SIGTERM", "3-SIGINT"],
)
def test_a_sweep_in_its_own_folder_stops_and_resumes(
    start: Callable[..., subprocess.Popen], results: Path, number: signal.Signals, n_jobs: int
) -> None:
    # With three workers and two jobs at work, none is left idle to be killed by the signal.
    sweep = ("-m", "hydra/launcher=cores", f"hydra.launcher.n_jobs={n_jobs}", "seed=0,1")
    own = (*ARGUMENTS, *sweep, f"hydra.sweep.dir={results.parent / 'mine'}")
    process = start(*own, HOUSE_WALK_DELAY="0.5")
    wait_for_chunks(results, process, 1, runs=min(n_jobs, 2))
    process.send_signal(number)  # to the parent alone
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + number, said
    assert said.count("stopping at the next border") == 1 and "Traceback" not in said
    assert not finished_runs("house_walk")
    process = start(*own)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    assert "2 of 2 jobs done" in said and said.count("resumed") == min(n_jobs, 2)


@pytest.mark.slow
def test_workers_end_when_the_sweep_is_killed(
    start: Callable[..., subprocess.Popen], results: Path, walk: Callable[..., int]
) -> None:
    process = start(*ARGUMENTS, "-m", "seed=0,1", HOUSE_WALK_DELAY="0.5")
    wait_for_chunks(results, process, 1)
    process.kill()
    process.communicate(timeout=120)  # until the worker has ended too, and closed the streams
    assert not finished_runs("house_walk")
    assert walk("n_steps=60", "seed=0") == 0  # its lock is free


def test_a_signal_after_the_last_chunk_counts(
    walk: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def conduct_and_signal(*arguments: object, **options: object) -> object:
        outcome = conduct(*arguments, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return outcome

    monkeypatch.setattr(job, "conduct", conduct_and_signal)
    sweep = ("-m", "hydra/launcher=basic", "seed=0,1")
    assert walk(*sweep) == 143
    assert len(finished_runs("house_walk")) == 1  # the second job never began
    assert "stopped; the same command resumes" in capsys.readouterr().err


@pytest.mark.slow
def test_one_run_asked_for_twice_is_computed_once(
    start: Callable[..., subprocess.Popen], results: Path
) -> None:
    twice = ("-m", "hydra/launcher=cores", "hydra.launcher.n_jobs=2", "seed=0,0")
    process = start(*ARGUMENTS, *twice, HOUSE_WALK_DELAY="0.1")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "2 of 2 jobs done" in said
    assert said.count(" done in ") == 1 and said.count("is there already") == 1
