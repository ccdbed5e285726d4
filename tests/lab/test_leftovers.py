import os
import time
from pathlib import Path

import pytest

from circuitax.commands.launch import job_folder
from circuitax.lab import runs
from circuitax.lab.leftovers import LOGS_DAYS, remove_beyond, remove_older


def aged(path: Path, days: float) -> Path:
    when = time.time() - days * 86_400
    os.utime(path, (when, when))
    return path


def test_only_what_is_old_goes(tmp_path: Path) -> None:
    for name, days in (("young", 1), ("old", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.txt").write_text(name)
        aged(tmp_path / name, days)
    aged_file = tmp_path / "old.log"
    aged_file.write_text("")
    aged(aged_file, 5)
    assert remove_older(tmp_path, 2.0) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["young"]
    assert (tmp_path / "young" / "log.txt").read_text() == "young"
    assert remove_older(tmp_path / "missing", 2.0) == 0


def test_what_was_used_last_stays(tmp_path: Path) -> None:
    for age, name in enumerate(("newest", "new", "old", "oldest")):
        (tmp_path / name).write_bytes(b"x" * 100)
        aged(tmp_path / name, age)
    assert remove_beyond(tmp_path, 400) == 0
    assert remove_beyond(tmp_path, 250) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "newest"]
    assert remove_beyond(tmp_path / "missing", 0) == 0


def test_a_command_sweeps_the_folders_of_old_ones_and_no_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path))
    hydra, work = tmp_path / ".work" / "hydra", tmp_path / ".work" / "0123456789ab"
    for folder in (hydra / "2020-01-01", work):
        folder.mkdir(parents=True)
        aged(folder, LOGS_DAYS + 1)
    (hydra / "2026-01-01").mkdir()
    new = job_folder(multirun=False)
    assert new.parent == hydra
    assert {path.name for path in hydra.iterdir()} == {"2026-01-01", new.name}
    assert work.is_dir()
