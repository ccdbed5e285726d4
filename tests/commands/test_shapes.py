"""Sweeps over shapes: memory stays flat, and a job that ends its process is one failed job."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from circuitax.lab.runs import finished_runs

pytestmark = pytest.mark.slow
CORES = ("hydra/launcher=cores", "hydra.launcher.n_jobs=2")


def sweep(
    start: Callable[..., subprocess.Popen], *arguments: str, **environment: str
) -> tuple[int, str]:
    process = start(
        "experiments.run", "-m", "experiment=house_shapes", "scale=tiny", *arguments, **environment
    )
    _, said = process.communicate(timeout=600)
    return process.returncode, said


def test_memory_stays_flat_over_60_shapes(
    start: Callable[..., subprocess.Popen], results: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    status, said = sweep(start, "width=range(2,62)", "functions=8", HOUSE_SHAPES_LOG=str(log))
    assert status == 0, said
    assert "60 of 60 jobs done" in said
    rows = [line.split() for line in log.read_text().splitlines()]
    maps = [int(row[1]) for row in rows]
    megabytes = [float(row[2]) for row in rows]
    assert len(rows) == 60
    # Without a release the maps grow with every job, here to more than the bound.
    assert maps[1] - maps[0] > 3000 / 60
    assert max(maps) - maps[0] < 3000 and max(megabytes) - megabytes[0] < 300
    # Workers are replaced only when they have grown: starting one takes seconds.
    assert len({row[0] for row in rows}) <= 3


@pytest.mark.parametrize("launcher", [(), CORES], ids=["local", "cores"])
def test_a_job_that_ends_its_process_is_one_failed_job(
    start: Callable[..., subprocess.Popen], results: Path, launcher: tuple[str, ...]
) -> None:
    status, said = sweep(start, "width=2,3", "fail='',abort,exit,kill", *launcher)
    assert status == 1 and "Traceback" not in said
    summary = said[said.index("2 of 8 jobs done") :]
    assert summary.count("its process was ended by signal 6 (SIGABRT)") == 2
    assert summary.count("its process ended with exit status 7") == 2
    assert summary.count("ended by signal 9 (SIGKILL), as when memory runs out") == 2
    assert summary.count("failed: experiment=house_shapes scale=tiny width=2 fail=abort: ") == 1
    assert len(finished_runs("house_shapes")) == 2
    status, said = sweep(start, "width=2,3", *launcher)
    assert status == 0 and said.count("is there already") == 2
