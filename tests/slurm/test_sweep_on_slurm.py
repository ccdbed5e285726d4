"""A sweep over width and depth on a real Slurm: a job is killed, others make room, nothing is lost.

    python -m pytest tests/slurm -m slurm

It needs root and Debian's packages slurm-wlm, slurmdbd, munge and mariadb-server, and takes some
minutes. ``make test`` leaves it out.
"""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuitax.commands import collect
from circuitax.config import catalogue
from circuitax.lab.runs import VARIABLE
from circuitax.records.record import Record

_spec = importlib.util.spec_from_file_location("cluster", Path(__file__).with_name("cluster.py"))
assert _spec is not None and _spec.loader is not None
cluster = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cluster)

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        bool(cluster.missing()), reason=f"no Slurm here: {', '.join(cluster.missing())}"
    ),
]

HOUSE = Path(__file__).parent.parent / "house"
SWEEP = (
    *(
        "-m",
        "hydra/launcher=slurm_cpu",
        "hydra.launcher.cpus_per_task=1",
        "hydra.launcher.mem_gb=1",
    ),
    "scale=tiny",
)
PASSES = 60  # of a second each, so that there is time to interfere
STACK = ("experiment=house_stack", f"n_passes={PASSES}", "width=2,4", "depth=1,2")
PATIENCE = 900.0


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands find the test's cluster."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm") as folder,
        cluster.running(Path(folder)) as env,
    ):
        yield env


@pytest.fixture
def slurm(clients: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A command of Slurm's; what it said."""
    for name, value in clients.items():
        monkeypatch.setenv(name, value)

    def call(*command: str) -> str:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return call


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "results"))
    monkeypatch.setenv(catalogue.VARIABLE, str(HOUSE))
    return tmp_path / "results"


def launch(*arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.run", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(holds: Callable[[], bool], process: subprocess.Popen, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"{what}: {process.communicate()}")
        time.sleep(0.1)


def test_nothing_is_lost(
    slurm: Callable[..., str], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The delay reaches the jobs, since Slurm hands them the environment of the one who submits.
    process = launch(*SWEEP, *STACK, HOUSE_STACK_DELAY="1")
    manifests = results / "house_stack" / "sweeps"
    wait_until(lambda: any(manifests.glob("*.json")), process, "no manifest")
    (manifest,) = manifests.glob("*.json")
    runs = [job["run"] for job in json.loads(manifest.read_text())["jobs"]]
    sweep = results / ".work" / "sweeps" / manifest.stem

    def chunks(job: int) -> int:
        path = results / ".work" / runs[job] / "metrics.jsonl"
        return path.read_text().count("\n") if path.exists() else 0

    # Two jobs fit at a time. The first is killed, as when memory runs out.
    wait_until(lambda: min(chunks(0), chunks(1)) >= 3, process, "the first jobs")
    array = slurm("squeue", "-h", "-t", "R", "-o", "%F").split()[0]
    os.kill(int((results / ".work" / f"{runs[0]}.lock").read_text()), signal.SIGKILL)
    # Then both that are at work make room for one of a higher partition.
    wait_until(lambda: min(chunks(1), chunks(2)) >= 6, process, "the next job")
    slurm("sbatch", "-p", cluster.HIGH, "-c", "2", "-o", "/dev/null", "--wrap", "sleep 1")

    def restarts() -> list[int]:
        told = slurm("squeue", "-h", "-a", "-r", "-p", cluster.LOW, "-O", "ArrayTaskID,RestartCnt")
        count = dict(line.split() for line in told.splitlines())
        return [int(count.get(str(job), 0)) for job in (1, 2)]

    wait_until(lambda: restarts() == [1, 1], process, "no job was queued again")
    queued = [chunks(job) for job in (1, 2)]
    for job in (1, 2):  # Slurm waits two minutes before it starts them again
        slurm("scontrol", "update", f"JobId={array}_{job}", "StartTime=now")
    _, said = process.communicate(timeout=PATIENCE)
    told = slurm("sacct", "-X", "-n", "-P", "-o", "JobID,State,ExitCode,Elapsed", "-j", array)
    with capsys.disabled():  # what docs/cluster.md shows
        sys.stdout.write(f"\n{said}\nchunks before they were queued again: {queued}\n{told}\n")

    assert process.returncode == 1
    summary = said[said.rindex("3 of 4 jobs done") :]
    assert summary.count("failed: ") == 1 and "width=2 depth=1: Slurm says FAILED" in summary
    statuses = {
        path.parent.name: json.loads(path.read_text())
        for path in sweep.glob("*/circuitax-status.json")
    }
    assert [statuses[str(job)]["status"] for job in range(4)] == ["failed", *3 * ["done"]]
    for job, before in zip((1, 2), queued, strict=True):
        log = (results / "house_stack" / runs[job] / "log.txt").read_text()
        (computed,) = re.findall(r"stack: (\d+) chunks", log)
        # The chunk under way when the signal came is kept too.
        assert 3 <= before <= PASSES - int(computed) <= before + 2, log

    # What finished is merged, and what is missing is named.
    assert collect.main(["experiment=house_stack"]) == 2
    assert "1 runs of sweep" in capsys.readouterr().err
    assert collect.main(["experiment=house_stack", "missing=allow"]) == 0
    data = merged(results)
    assert data.sizes == {"width": 2, "depth": 2, "pass": PASSES}
    assert np.isnan(data["mean"].sel(width=2, depth=1)).all()

    # The same command computes what is missing, and nothing else.
    again = launch(*SWEEP, *STACK)
    _, said = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0 and "4 of 4 jobs done" in said, said
    assert collect.main(["experiment=house_stack"]) == 0
    on_cluster = merged(results)

    # Without a cluster, and without an interruption, the numbers are the same.
    os.environ[VARIABLE] = str(results.parent / "here")
    here = launch("-m", "scale=tiny", *STACK)
    _, said = here.communicate(timeout=PATIENCE)
    assert here.returncode == 0, said
    assert collect.main(["experiment=house_stack"]) == 0
    straight = merged(results.parent / "here")
    for name in ("mean", "largest"):
        np.testing.assert_allclose(on_cluster[name], straight[name], rtol=1e-6)


def test_an_exception_and_a_refusal_are_named(slurm: Callable[..., str], results: Path) -> None:
    process = launch(*SWEEP, "experiment=house_stack", "fail='',error")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "1 of 2 jobs done" in said
    assert "failed: scale=tiny experiment=house_stack fail=error: RuntimeError: the stack" in said
    states = slurm("sacct", "-X", "-n", "-P", "-o", "State").split()
    assert states[-2:] == ["COMPLETED", "COMPLETED"]  # which is why nobody should ask Slurm

    process = launch(*SWEEP, "hydra.launcher.partition=nowhere", *STACK)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "0 of 4 jobs done" in said and "invalid partition" in said and "Traceback" not in said


def test_real_models_over_width_and_depth(slurm: Callable[..., str], results: Path) -> None:
    models = ("experiment=text_models", "model.d_model=8,16", "model.n_layers=1,2", "full_seeds=0")
    process = launch(*SWEEP, *models)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "4 of 4 jobs done" in said, said
    assert collect.main(["experiment=text_models", "missing=allow"]) == 0
    (folder,) = (results / "text_models" / "collected").iterdir()
    record = Record.load(folder)
    assert set(record.notes["axes"]) == {"model.d_model", "model.n_layers"}
    assert record.data.sizes["d_model"] == record.data.sizes["n_layers"] == 2


def merged(results: Path) -> xr.Dataset:
    """The dataset of the latest sweep."""
    folders = sorted((results / "house_stack" / "collected").iterdir())
    return Record.load(folders[-1]).data
