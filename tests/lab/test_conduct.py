"""One run from its cell to its folder."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

from circuitax.config.catalogue import ExperimentEntry
from circuitax.config.planned_runs import PlannedRun, plan
from circuitax.lab import conduct as conduct_module
from circuitax.lab.busy import Busy, held
from circuitax.lab.conduct import Outcome, conduct, device_name, source_of
from circuitax.lab.runs import (
    DERIVED,
    figures,
    finished_runs,
    provenance,
    run_folder,
    shown,
    verdicts,
    whole,
    work_folder,
)
from circuitax.lab.session import UNDER_WAY, announcement, clock
from circuitax.lab.stop import StopFlag, Stopped
from circuitax.records.manifest import write_manifest
from circuitax.records.measured import Measured
from circuitax.records.record import Record


def cell(
    entries: dict[str, ExperimentEntry], *overrides: str, name: str = "house_walk"
) -> PlannedRun:
    return plan([f"experiment={name}", "scale=tiny", *overrides], entries)[1][0]


def go(cell: PlannedRun, stop: StopFlag | None = None, said: list[str] | None = None) -> Outcome:
    say = (lambda text: None) if said is None else said.append
    return conduct(cell, command="typed", stop=stop or StopFlag(), say=say)


def test_a_run_folder_is_whole(entries: dict[str, ExperimentEntry], results: Path) -> None:
    said: list[str] = []
    wanted = cell(entries, "rate=0.5")
    outcome = go(wanted, said=said)
    assert outcome.folder == results / "house_walk" / wanted.id
    names = {path.relative_to(outcome.folder).as_posix() for path in outcome.folder.rglob("*.*")}
    assert names >= {
        "config.yaml",
        "spec.json",
        "overrides.yaml",
        "provenance.json",
        "data.nc",
        "scalars.json",
        "claims.json",
        "metrics.jsonl",
        "log.txt",
        "tables/rate.csv",
        "arrays/end.safetensors",
        "figures/path.png",
        "figures/path.pdf",
    }
    assert not [path for path in work_folder().iterdir() if path.name != "hydra"]
    facts = provenance(outcome.folder)
    assert (facts["experiment"], facts["scale"], facts["seed"]) == ("house_walk", "tiny", 0)
    assert (facts["command"], facts["dtype"]) == ("typed", "float32")
    assert "n_steps: 4" in (outcome.folder / "config.yaml").read_text()
    assert (outcome.folder / "overrides.yaml").read_text().splitlines()[-1] == "- rate=[0.5]"
    assert [v.verdict for v in verdicts(outcome.folder)] == ["holds", "holds"]
    assert said == [f"house_walk {wanted.id} at tiny scale"]
    text = "".join(
        p.read_text() for p in outcome.folder.rglob("*") if p.suffix in {".json", ".yaml"}
    )
    assert str(results.parent) not in text and os.uname().nodename not in text


def test_a_finished_run_is_reused_while_its_source_is_the_same(
    entries: dict[str, ExperimentEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = cell(entries)
    first = go(wanted)
    written = (first.folder / "data.nc").stat().st_mtime_ns
    assert go(wanted).reused
    assert (first.folder / "data.nc").stat().st_mtime_ns == written
    monkeypatch.setattr(conduct_module, "source_of", lambda cell: "other")
    again = go(wanted)
    assert not again.reused and again.folder == first.folder
    assert provenance(again.folder)["source"] == "other"
    assert not list(first.folder.parent.glob(".*"))


def test_numbers_follow_the_seed_and_nothing_else(entries: dict[str, ExperimentEntry]) -> None:
    def position(*overrides: str) -> np.ndarray:
        return Record.load(go(cell(entries, *overrides)).folder).data["position"].values

    base = position()
    assert not np.array_equal(base, position("seed=1"))
    longer = position("n_steps=6")
    np.testing.assert_array_equal(base, longer[:4])
    double = position("dtype=float64")
    assert double.dtype == np.float64 and base.dtype == np.float32
    assert not jax.config.jax_enable_x64


def test_stopped_and_resumed(entries: dict[str, ExperimentEntry], results: Path) -> None:
    module = entries["house_walk"].load()
    straight = go(cell(entries, "n_steps=6"))
    kept = Record.load(straight.folder)
    straight.folder.rename(results / "straight")
    stop = StopFlag()
    original = module.time.sleep
    calls = []

    def sleep(seconds: float) -> None:
        calls.append(1)
        if len(calls) == 3:
            stop.number = 15

    module.time.sleep = sleep
    try:
        with pytest.raises(Stopped):
            go(cell(entries, "n_steps=6"), stop)
        assert not finished_runs("house_walk")
        said: list[str] = []
        resumed = go(cell(entries, "n_steps=6"), said=said)
    finally:
        module.time.sleep = original
    assert said[0].endswith("at tiny scale, resumed")
    assert len(calls) == 6
    np.testing.assert_array_equal(
        Record.load(resumed.folder).data["position"], kept.data["position"]
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("depends-*.json", []),
        (
            "metrics.jsonl",
            ["metrics.jsonl of unfinished work is no file"],
        ),
        ("loops", ["loops of unfinished work is no folder"]),
    ],
)
def test_damaged_work_never_blocks(
    entries: dict[str, ExperimentEntry], name: str, said: list[str]
) -> None:
    wanted, stop = cell(entries), StopFlag()
    stop.number = 15
    with pytest.raises(Stopped):
        go(wanted, stop)
    work = work_folder() / wanted.id
    if name == "metrics.jsonl":
        (work / name).mkdir()
    elif name == "loops":
        shutil.rmtree(work / name, ignore_errors=True)
        (work / name).write_text("no folder")
    else:
        (path,) = work.glob(name)
        path.write_bytes(b"\xff")
    told: list[str] = []
    assert go(wanted, said=told).folder.is_dir()
    assert told[: len(said)] == [f"{line} (set aside in unreadable/)" for line in said]
    assert told[len(said)].endswith("resumed")


def test_work_that_is_no_folder_is_begun_anew(entries: dict[str, ExperimentEntry]) -> None:
    wanted = cell(entries)
    work_folder().mkdir(parents=True)
    (work_folder() / wanted.id).write_text("no folder")
    assert go(wanted).folder.is_dir()


def test_work_of_another_source_is_not_resumed(
    entries: dict[str, ExperimentEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = cell(entries)
    stop = StopFlag()
    stop.number = 15
    with pytest.raises(Stopped):
        go(wanted, stop)
    (work_folder() / wanted.id / "left").write_text("over")
    monkeypatch.setattr(conduct_module, "source_of", lambda cell: "other")
    said: list[str] = []
    go(wanted, said=said)
    assert "resumed" not in said[0]


def test_a_failing_figure_does_not_lose_the_data(entries: dict[str, ExperimentEntry]) -> None:
    wanted = cell(entries, "fail=figure")
    outcome = go(wanted)
    assert outcome.figure_error.startswith("KeyError")
    assert "Traceback" in (outcome.folder / "figures_failed.txt").read_text()
    assert "spread" in Record.load(outcome.folder).data
    assert go(wanted).reused and go(wanted).figure_error


def test_a_failing_run_leaves_nothing_finished(entries: dict[str, ExperimentEntry]) -> None:
    with pytest.raises(RuntimeError, match="told to fail"):
        go(cell(entries, "fail=error"))
    assert not finished_runs("house_walk")


def test_claims_must_be_settled(
    entries: dict[str, ExperimentEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, wanted = entries["house_walk"].load(), cell(entries)
    with monkeypatch.context() as patch:
        patch.setattr(entries["house_walk"].load("measures"), "measure", lambda r: Measured({}, {}))
        with pytest.raises(ValueError, match="claim 'walk-starts' needs"):
            go(wanted)
        assert (run_folder("house_walk", wanted.id) / "data.nc").is_file()
        assert not go(cell(entries, name="house_reader")).reused  # which needs the data only
        with pytest.raises(ValueError, match="claim 'walk-starts' needs"):
            go(wanted)
    assert go(wanted).reused
    monkeypatch.setattr(module, "run", lambda spec, key, lab: None)
    with pytest.raises(ValueError, match="not a Record"):
        go(cell(entries, "seed=5"))


def test_unmet_preconditions_reach_the_verdict(entries: dict[str, ExperimentEntry]) -> None:
    found = {v.claim.id: v for v in verdicts(go(cell(entries, "members=2")).folder)}
    assert found["walk-spreads"].verdict == "absent"
    assert found["walk-spreads"].reason == "too few members"


def test_upstream_runs_are_computed_first_and_named(entries: dict[str, ExperimentEntry]) -> None:
    wanted = cell(entries, name="house_reader")
    outcome = go(wanted)
    assert provenance(outcome.folder)["inputs"] == {"house_walk": wanted.inputs[0].id}
    assert run_folder("house_walk", wanted.inputs[0].id).is_dir()
    assert float(Record.load(outcome.folder).data["difference"]) == 0.0
    assert list(figures(outcome.folder)) == []
    assert source_of(wanted) != source_of(wanted.inputs[0])


def test_one_process_at_a_time(entries: dict[str, ExperimentEntry]) -> None:
    wanted = cell(entries)
    with (
        held(work_folder() / f"{wanted.id}.lock", "x"),
        pytest.raises(Busy, match=f"run house_walk/{wanted.id} is being computed"),
    ):
        go(wanted)


def test_an_upstream_run_of_another_process_is_awaited(
    entries: dict[str, ExperimentEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = cell(entries, name="house_reader")
    walk = wanted.inputs[0]
    looks: list[float] = []
    with ExitStack() as other:
        other.enter_context(held(work_folder() / f"{walk.id}.lock", "x"))

        def sleep(seconds: float) -> None:
            looks.append(seconds)
            if len(looks) == 2:
                other.close()

        monkeypatch.setattr(conduct_module.time, "sleep", sleep)
        assert go(wanted).folder.is_dir()
    assert looks[:2] == [conduct_module.WAIT_SECONDS] * 2


def test_expected_times_are_announced(entries: dict[str, ExperimentEntry]) -> None:
    walk = plan(["experiment=house_walk", "scale=paper"], entries)[1][0]
    assert announcement(walk, resumes=False).endswith(
        "at paper scale: about 2.0 h expected on 2 cores"
    )
    quick = plan(["experiment=house_walk"], entries)[1][0]
    assert announcement(quick, resumes=False).endswith("about 2 s expected on 2 cores")
    evening = plan(["experiment=house_walk", "scale=evening"], entries)[1][0]
    assert announcement(evening, resumes=False).endswith(
        "at evening scale: about 60 s expected on 2 cores"
    )
    reader = plan(["experiment=house_reader", "scale=paper"], entries)[1][0]
    assert "no time known for this scale" in announcement(reader, resumes=False)


def test_devices_and_paths_name_no_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert device_name().startswith(f"{len(jax.devices())} x ")
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "a" / "b") == "a/b"
    assert shown(Path("/elsewhere")) == "/elsewhere"
    with pytest.raises(ValueError, match="run='a' must be the folder of a finished run"):
        whole(tmp_path / "a")


def test_seconds_add_up_over_sessions(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "seconds"
    with clock(path, said.append) as seconds:
        pass
    assert 0 < seconds() < 5
    number = b"100.000"
    path.write_bytes(number + b" " + hashlib.sha256(number).hexdigest().encode() + b"\n")
    with clock(path, said.append) as seconds:
        pass
    assert 100 <= seconds() < 105 and not said
    whole = path.read_bytes()
    for bad in (b"9" + whole[1:], whole[:-2], b"", b"\xff\xfe"):
        path.write_bytes(bad)
        with clock(path, said.append) as seconds:
            pass
        assert 0 <= seconds() < 5
    assert said == ["file 'seconds' is damaged: the time of earlier sessions is not counted"] * 4


KILLED = """
import sys, time
from pathlib import Path
from circuitax.lab import session

session.BEAT_SECONDS = 0.01
with session.clock(Path(sys.argv[1]), print):
    time.sleep(600)
"""


def test_sessions_that_were_killed_count_until_their_last_note(tmp_path: Path) -> None:
    """Whatever becomes of the machine's clock: it stood at zero, and was set meanwhile."""
    path, under_way = tmp_path / "seconds", tmp_path / UNDER_WAY
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
    until = time.monotonic() + 60
    while not under_way.exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert 0 < float(under_way.read_text().split()[0]) < 60
    number = b"100.000"
    for item in (path, under_way):
        item.write_bytes(number + b" " + hashlib.sha256(number).hexdigest().encode() + b"\n")
    os.utime(path, (0, 0))
    os.utime(under_way, (0, 1.8e9))
    with clock(path, print) as seconds:
        assert not under_way.exists(), "it counts once"
    assert 200 <= seconds() < 205


def test_a_damaged_run_is_computed_again_and_said(entries: dict[str, ExperimentEntry]) -> None:
    wanted = cell(entries)
    first = go(wanted)
    before = Record.load(first.folder)
    damaged = [
        ("data.nc", "flipped"),
        ("data.nc", "gone"),
        ("arrays/end.safetensors", "cut"),
        ("provenance.json", "empty"),
        ("config.yaml", "flipped"),
        ("manifest.json", "flipped"),
        ("manifest.json", "gone"),
    ]
    for name, how in damaged:
        path = first.folder / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        bad = {"flipped": data, "cut": data[: len(data) // 2], "empty": b"", "gone": b""}[how]
        path.write_bytes(bad)
        if how == "gone":
            path.unlink()
        said: list[str] = []
        again = go(wanted, said=said)
        word = "missing" if how == "gone" else "damaged"
        assert said[0] == f"house_walk/{wanted.id} is computed again: {name} is {word}"
        assert not again.reused
        xr.testing.assert_identical(Record.load(again.folder).data, before.data)
        assert go(wanted).reused


def test_damaged_claims_and_figures_are_made_again_without_computing(
    entries: dict[str, ExperimentEntry],
) -> None:
    wanted = cell(entries)
    folder = go(wanted).folder
    names = ("claims.json", "scalars.json", "figures/path.png")
    kept = {name: (folder / name).read_bytes() for name in names}
    for name in (*names, "settled.json", "figures/.source"):
        for bad in (b"", b"[]"):
            (folder / name).write_bytes(bad)
            assert go(wanted).reused
            assert {item: (folder / item).read_bytes() for item in names} == kept
        (folder / name).unlink()
        assert go(wanted).reused
        assert {item: (folder / item).read_bytes() for item in names} == kept


def test_a_run_is_computed_again_when_asked(entries: dict[str, ExperimentEntry]) -> None:
    first = go(cell(entries))
    written = (first.folder / "data.nc").stat().st_mtime_ns
    stop = StopFlag()
    stop.number = 15
    for word in ("true", "yes"):
        asked = cell(entries, f"again={word}")
        assert asked.id == first.folder.name
        with pytest.raises(Stopped):
            go(asked, stop)
        # The old run stays until the new one is whole.
        assert (first.folder / "data.nc").stat().st_mtime_ns == written
        assert go(cell(entries)).reused
    again = go(asked)
    assert not again.reused and again.folder == first.folder
    assert (again.folder / "data.nc").stat().st_mtime_ns > written
    assert go(cell(entries)).reused
    assert "again" not in (again.folder / "config.yaml").read_text()
    assert "again" not in (again.folder / "overrides.yaml").read_text()


def test_other_upstream_data_are_read_again(entries: dict[str, ExperimentEntry]) -> None:
    reader, walk = cell(entries, name="house_reader"), cell(entries)
    first = go(reader)
    # The run upstream is computed on another machine, say, and has other numbers in the last digit.
    upstream = run_folder("house_walk", walk.id)
    record = Record.load(upstream)
    record.data["position"] += 1e-6
    record.save(upstream)
    write_manifest(upstream, left_out=DERIVED)
    again = go(reader)
    assert not again.reused and again.folder == first.folder
    marks = [provenance(run)["input_data"]["house_walk"] for run in (upstream, again.folder)[1:]]
    assert len(marks[0]) == 64
    assert float(Record.load(again.folder).data["difference"]) > 0
    assert go(reader).reused


def test_a_publish_that_was_killed_is_recovered(entries: dict[str, ExperimentEntry]) -> None:
    wanted = cell(entries)
    first = go(wanted).folder
    first.rename(first.with_name(f".{first.name}.999999999.old"))
    assert go(wanted).reused
    assert not list(first.parent.glob(".*"))
