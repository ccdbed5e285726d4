import os
import time
from pathlib import Path

from circuitax.lab.abandoned import remove_abandoned
from circuitax.lab.busy import held


def work(folder: Path, name: str, days: float) -> Path:
    """The work of a run, all of it written some days ago."""
    files = folder / name / "checkpoints" / "walk"
    files.mkdir(parents=True)
    (files / "arrays").write_text(name)
    when = time.time() - days * 86_400
    for path in (files / "arrays", files, files.parent, folder / name):
        os.utime(path, (when, when))
    return folder / name


def test_work_goes_when_nobody_touched_any_of_it(tmp_path: Path) -> None:
    old, young = work(tmp_path, "0123456789ab", 91), work(tmp_path, "ba9876543210", 89)
    resumed = work(tmp_path, "aaaaaaaaaaaa", 200)
    (resumed / "checkpoints" / "walk" / "arrays").write_text("just now")
    logs = work(tmp_path, "sweeps", 200)
    said: list[str] = []
    assert remove_abandoned(tmp_path, 90.0, said.append) == ["0123456789ab"]
    assert said == [
        "removed unfinished work that nobody touched for 90 days, of 1 run: 0123456789ab"
    ]
    assert sorted(tmp_path.iterdir()) == sorted([young, resumed, logs])
    assert (young / "checkpoints" / "walk" / "arrays").read_text() == young.name
    assert not old.exists()
    assert remove_abandoned(tmp_path, 90.0, said.append) == [] and len(said) == 1
    assert remove_abandoned(tmp_path / "missing", 90.0, said.append) == []


def test_work_under_a_lock_stays_however_old(tmp_path: Path) -> None:
    first, second = work(tmp_path, "0123456789ab", 1000), work(tmp_path, "ba9876543210", 1000)
    left_behind = second.with_suffix(".lock")  # of a process that was killed: it holds nothing
    left_behind.write_text("4194304")
    with held(first.with_suffix(".lock"), "the walk"):
        assert remove_abandoned(tmp_path, 90.0, str) == [second.name]
        assert (first / "checkpoints" / "walk" / "arrays").is_file()
    assert not left_behind.exists()
    assert remove_abandoned(tmp_path, 90.0, str) == [first.name]
    assert list(tmp_path.iterdir()) == []
