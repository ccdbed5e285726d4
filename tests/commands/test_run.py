"""One run, and sweeps of it here and in processes: their outcome, in words and exit status."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from circuitax.commands import collect, run
from circuitax.commands import runs as list_runs
from circuitax.lab.runs import finished_runs, sweeps_of
from circuitax.records.record import Record

WALK = ("experiment=house_walk", "scale=tiny")
RUN = (sys.executable, "-m", "experiments.run")


def sweep(*typed: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A sweep, in a process of its own: Hydra closes what logs in a process."""
    command = [*RUN, "-m", *WALK, *typed]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_a_run_is_computed_and_then_reused(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*WALK]) == 0
    assert "at tiny scale" in (said := capsys.readouterr().err) and "done in" in said
    assert run.main([*WALK]) == 0
    assert "is there already" in capsys.readouterr().err
    assert run.main([*WALK, "--again"]) == 0
    assert "computed again: again=true asks for it" in capsys.readouterr().err
    assert len(finished_runs("house_walk")) == 1


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        (["--help"], 0, ""),
        ([], 2, ""),
        ([*WALK, "n_stps=3"], 2, "did you mean 'n_steps'?"),
        ([*WALK, "fail=figure"], 1, "the data are kept, but claims or figures failed"),
    ],
)
def test_exit_status(
    results: Path, capsys: pytest.CaptureFixture[str], typed: list[str], status: int, said: str
) -> None:
    assert run.main(typed) == status
    assert said in capsys.readouterr().err


def test_a_sweep_goes_on_behind_a_job_that_fails_and_is_collected(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = sweep("seed=1,2", "fail=error,''")
    assert ended.returncode == 1, ended.stderr
    assert "4 jobs, every one checked" in ended.stderr and "2 of 4 jobs done" in ended.stderr
    assert "the walk was told to fail" in ended.stderr
    assert "[4/4] experiment=house_walk scale=tiny seed=2 fail=''" in ended.stderr
    assert "not done: experiment=house_walk scale=tiny seed=1 fail=error" in ended.stderr
    assert collect.main(["experiment=house_walk"]) == 2
    assert "2 runs of sweep" in capsys.readouterr().err
    assert sweep("seed=1,2", "step.size=1,2").returncode == 0
    assert collect.main(["experiment=house_walk"]) == 0
    label = list(sweeps_of("house_walk"))[-1]
    data = Record.load(results / "house_walk" / "collected" / label).data
    assert data["walk-spread"].sizes == {"size": 2, "run_seed": 2} or data["walk-spread"].size == 4
    np.testing.assert_allclose(data.end.sel(size=2.0), 2 * data.end.sel(size=1.0), 1e-6)


def test_runs_are_listed_with_what_tells_them_apart(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for typed in ([], ["seed=3", "step.size=2"]):
        assert run.main([*WALK, *typed]) == 0
    assert list_runs.main(["house_walk"]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title == "house_walk: A random walk"
    for line, there, apart in zip(
        lines, finished_runs("house_walk"), ("defaults", "step.size=2.0, seed=3"), strict=True
    ):
        assert line.split()[0] == there.name and line.endswith(f"n = 6  {apart}")
    assert list_runs.main(["house_wlk"]) == 2
    assert "did you mean 'house_walk'" in capsys.readouterr().err


def test_a_sweep_over_processes_is_stopped_and_resumed(results: Path) -> None:
    typed = ["seed=1,2", "n_steps=100", "hydra/launcher=cores", "hydra.launcher.n_jobs=2"]
    environment = {**os.environ, "HOUSE_WALK_DELAY": "0.2"}
    command = [*RUN, "-m", *WALK, *typed]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while len(list(results.glob(".work/*/log.txt"))) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert not finished_runs("house_walk")
    ended = sweep(*typed, HOUSE_WALK_DELAY="0")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("at tiny scale, resumed") == 2
    assert "2 of 2 jobs done" in ended.stderr


def test_a_cluster_has_the_launcher_of_submitit(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.main([*WALK, "hydra/launcher=slurm_gpu", "--cfg", "hydra"]) == 0
    shown = capsys.readouterr().out
    assert "hydra_submitit_launcher.submitit_launcher.SlurmLauncher" in shown
    assert "gpus_per_node: 1" in shown and "signal_delay_s: 120" in shown


def test_a_job_runs_behind_submitit(results: Path) -> None:
    ended = sweep("seed=1,2", "hydra/launcher=submitit_local")
    assert ended.returncode == 0, ended.stderr
    assert len(finished_runs("house_walk")) == 2
