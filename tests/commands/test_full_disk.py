"""A sweep on a real disk that is too small for it; only root may make one."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from circuitax.commands import collect
from circuitax.lab import runs
from circuitax.lab.runs import finished_runs
from circuitax.records.manifest import damage
from circuitax.records.record import Record

SEEDS = 12
BYTES = 2**22


@pytest.fixture
def disk(tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of four megabytes, with the results folder on it."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={BYTES}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    monkeypatch.setenv(runs.VARIABLE, str(place / "results"))
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_sweep_that_fills_its_disk_says_so_and_is_completed_later(
    disk: Path, walk: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    sweep = ("-m", f"seed=range(0,{SEEDS})")
    filler = disk / "filler"
    filler.write_bytes(bytes(BYTES - 1_100_000))
    assert walk(*sweep) == 1
    said = capfd.readouterr().err
    left = [line for line in said.splitlines() if line.startswith("error: ")]
    done = finished_runs("house_walk")
    assert done and len(done) + len(left) >= SEEDS
    assert all("No space left on device" in line and "CIRCUITAX_RESULTS=" in line for line in left)
    assert "Traceback" not in said and "Logging error" not in said
    kept = {run.name: (run / "data.nc").read_bytes() for run in done}
    # What else is asked of the full disk is a line too.
    filler.write_bytes(bytes(filler.stat().st_size + free(disk)))
    assert walk(*sweep) == 2
    assert collect.main(["experiment=house_walk", "missing=allow", "sweep=all"]) == 2
    said = capfd.readouterr().err
    assert said.count("\n") == said.count("error: ") == 2 and said.count("No space left") == 2
    filler.unlink()
    assert walk(*sweep) == 0
    again = finished_runs("house_walk")
    assert len(again) == SEEDS and not any(damage(run) for run in again)
    assert {name: (again[0].parent / name / "data.nc").read_bytes() for name in kept} == kept
    assert capfd.readouterr().err.count("is there already") >= len(kept) - 1
    assert collect.main(["experiment=house_walk"]) == 0
    (merged,) = (disk / "results" / "house_walk" / "collected").iterdir()
    assert Record.load(merged).data.sizes["seed"] == SEEDS


def free(disk: Path) -> int:
    """Bytes that the disk still takes."""
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize
