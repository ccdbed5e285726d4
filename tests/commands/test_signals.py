"""Signals and kills, with real processes."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

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
    process.send_signal(signal.SIGTERM)
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
