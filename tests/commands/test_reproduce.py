"""The suite: cheap first, nothing stops the rest, pages after each."""

import errno
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circuitax.commands import accept, reproduce, run, suite
from circuitax.config.catalogue import discover
from circuitax.lab import runs
from circuitax.lab.busy import held
from circuitax.lab.runs import DERIVED, finished_runs, provenance, run_folder
from circuitax.lab.stop import StopFlag
from circuitax.lab.times import times_of
from circuitax.records.manifest import checksum, write_manifest
from circuitax.records.store import write_json


def test_cheap_first_but_upstream_before(results: Path) -> None:
    entries = discover()
    assert reproduce.cheap_first(["house_walk", "house_reader"], entries) == [
        "house_walk",
        "house_reader",
    ]
    free = {**entries, "house_reader": entries["house_reader"]._replace(requires=())}
    assert reproduce.cheap_first(["house_walk", "house_reader"], free) == [
        "house_reader",
        "house_walk",
    ]


def test_the_suite(
    children: list[list[str]], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce.main(["only=house_reader", "scale=tiny", "seed=1"]) == 0
    out = capsys.readouterr().out
    assert [command[3] for command in children] == [
        "experiment=house_walk",
        "experiment=house_reader",
    ]
    assert children[0][0] == sys.executable and "seed=1" in children[0]
    assert "[1/2] house_walk" in out and "[2/2] house_reader" in out
    assert "gallery: " in out and "claims:  " in out
    (walk,), (reader,) = (finished_runs(name) for name in ("house_walk", "house_reader"))
    assert set(times_of(walk)) == {"compiling", "drawing"} and set(times_of(reader)) == {
        "compiling"
    }
    parts = [f"{name} {times_of(walk)[name]:.1f} s" for name in ("compiling", "drawing")]
    said = f"{parts[0]}, computing [\\d.]+ s, {parts[1]}"
    assert re.search(rf"house_walk +done +[\d.]+ s  {said}\n", out)
    assert re.search(r"house_reader +done +[\d.]+ s  compiling [\d.]+ s, computing [\d.]+ s\n", out)
    assert re.search(r"together +[\d.]+ s  compiling [\d.]+ s, computing [\d.]+ s, drawing", out)
    assert reproduce.main(["only=house_reader", "scale=tiny", "seed=1"]) == 0
    assert "compiling" not in capsys.readouterr().out, "nothing was computed"
    page = (results / "latest" / "gallery" / "further.md").read_text()
    assert "## house_walk" in page and "## house_reader" in page
    assert (results / "latest" / "CLAIMS.md").is_file()


def test_again_is_for_the_experiments_named(
    children: list[list[str]], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce.main(["only=house_reader", "scale=tiny", "again=yes"]) == 0
    assert [("again=true" in command) for command in children] == [False, True]
    assert reproduce.main(["again=often"]) == 2


def test_pages_keep_what_was_reproduced_before(children: list[list[str]], results: Path) -> None:
    assert reproduce.main(["only=house_reader", "scale=tiny"]) == 0
    assert reproduce.main(["only=house_walk", "scale=tiny", "seed=5"]) == 0
    page = (results / "latest" / "gallery" / "further.md").read_text()
    assert "## house_walk" in page and "## house_reader" in page
    shown = json.loads((results / "latest" / reproduce.RUNS).read_text())
    seeds = {name: provenance(run_folder(name, run))["seed"] for name, run in shown.items()}
    assert seeds == {"house_walk": 5, "house_reader": 0}
    shutil.rmtree(run_folder("house_reader", shown["house_reader"]))
    for damaged in ("{", "[]", "[7]", '{"house_walk": [1]}'):  # only the pages suffer
        (results / "latest" / reproduce.RUNS).write_text(damaged)
        assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    assert "## house_reader" not in (results / "latest" / "gallery" / "further.md").read_text()


def test_busy_is_not_failed(
    children: list[list[str]], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walk = ["experiment=house_walk", "scale=tiny"]
    assert run.main(walk) == 0
    (done,) = finished_runs("house_walk")
    shutil.rmtree(done)
    with held(results / ".work" / f"{done.name}.lock", "the walk"):
        assert reproduce.main(["only=house_walk", "scale=tiny"]) == 1
    out = capsys.readouterr().out
    assert "house_walk  busy" in out and "FAILED" not in out
    assert "run this again to take the results: house_walk" in out and "failed: " not in out


def test_results_may_lie_in_a_folder_of_any_name(
    children: list[list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The folder of each process is handed to Hydra, whose grammar has its own use for signs."""
    place = tmp_path / "Müller & Søn, [x]=1"
    monkeypatch.setenv(runs.VARIABLE, str(place / "results"))
    for _ in range(2):  # computed, and found again
        assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    said = capsys.readouterr()
    assert "1 finished before; nothing to compute" in said.out and f"gallery: {place}" in said.out
    (run,) = finished_runs("house_walk")
    assert run.is_relative_to(place)
    left = [json.loads(path.read_text()) for path in place.glob("results/.work/reproduce/*/*.json")]
    assert [item["status"] for item in left] == ["done"], "what is finished needs no process"
    assert {item["run"] for item in left} == {run.name}


def test_abandoned_work_goes_at_the_end_of_all(
    children: list[list[str]], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = results / ".work" / "0123456789ab"
    work.mkdir(parents=True)
    os.utime(work, (0, 0))
    assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "removed" in text]
    assert line.endswith("90 days, of 1 run: 0123456789ab") and not work.exists()


def test_a_failure_is_named_and_the_rest_goes_on(
    children: list[list[str]],
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walk = discover()["house_walk"].load()
    original = walk.run
    monkeypatch.setattr(walk, "run", lambda *a: (_ for _ in ()).throw(RuntimeError("broken")))
    assert reproduce.main(["only=house_walk,house_reader", "scale=tiny"]) == 1
    out = capsys.readouterr().out
    assert "house_walk    FAILED" in out and out.rstrip().endswith(
        "failed: house_walk, house_reader"
    )
    assert len(children) == 2
    typed = [text for command in children for text in command]
    assert not any(text.startswith("seed=") for text in typed), "each has its own configuration's"
    assert "Not run yet" in (results / "latest" / "README.md").read_text()
    monkeypatch.setattr(walk, "run", original)


def test_a_signal_is_passed_on(
    results: Path,
    stand_in: Callable[[Callable], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sent: list[int] = []
    flags: list[Any] = []

    class Flag(reproduce.StopFlag):
        def __enter__(self) -> "Flag":
            flags.append(self)
            return self

    class Slow:
        def __init__(self, command: list[str]) -> None: ...

        def wait(self, timeout: float) -> int:
            if sent:
                return 143
            flags[0].number = 15
            raise subprocess.TimeoutExpired("run", timeout)

        def terminate(self) -> None:
            sent.append(15)

    monkeypatch.setattr(reproduce, "StopFlag", Flag)
    stand_in(Slow)
    assert reproduce.main(["only=house_walk,house_reader", "scale=tiny"]) == 143
    assert sent == [15]
    out = capsys.readouterr().out
    assert "stopped after 1 of 2: the pages show what is there" in out
    assert (results / "latest" / "report.html").is_file() and "gallery: " in out


class Slowly:
    """A process that takes its turns: what ran beside it is noted."""

    running: list[str] = []  # noqa: RUF012
    seen: dict[str, set[str]] = {}  # noqa: RUF012

    def __init__(self, command: list[str], env: dict[str, str], **pipes: int) -> None:
        assert env["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false" and env["PATH"]
        self.name, self.left = command[3].removeprefix("experiment="), 3
        self.stdout = io.BytesIO(f"working on {self.name}\nhalf a line".encode())
        Slowly.running.append(self.name)
        for name in Slowly.running:
            Slowly.seen.setdefault(name, set()).update(Slowly.running)

    def wait(self, timeout: float) -> int:
        self.left -= 1
        if self.left:
            raise subprocess.TimeoutExpired("run", timeout)
        Slowly.running.remove(self.name)
        return 0


def test_side_by_side(
    stand_in: Callable[[Callable], None], capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(Slowly)
    walk = discover()["house_walk"]
    entries = {
        name: walk._replace(name=name, requires=requires, alone=name == "timed")
        for name, requires in {
            "a": (),
            "reads_a": ("a",),
            "b": (),
            "timed": (),
            "c": (),
            "d": (),
        }.items()
    }
    Slowly.running, Slowly.seen = [], {}
    jobs = suite.Suite(list(entries), entries, ["scale=tiny"], [], 2, StopFlag())
    begun, ended = [], []
    while True:
        begun += list(jobs.start())
        if not (came := jobs.finished()):
            break
        ended += [result.name for result in came]
    assert begun == ["a", "b", "reads_a", "c", "timed", "d"], "no job idles for the timed one"
    assert sorted(ended) == sorted(entries)
    beside = {name: seen - {name} for name, seen in Slowly.seen.items()}
    assert beside["a"] == {"b"}, "a reader waits, and the next in order takes its place"
    assert beside["timed"] == beside["d"] == set() and beside["c"] == {"reads_a"}
    lines = capsys.readouterr().out.splitlines()
    assert "reads_a: working on reads_a" in lines and "c: half a line" in lines


def test_a_signal_reaches_all_that_run(stand_in: Callable[[Callable], None]) -> None:
    told: list[str] = []

    class Patient(Slowly):
        def wait(self, timeout: float) -> int:
            if self.name in told:
                return 143
            raise subprocess.TimeoutExpired("run", timeout)

        def terminate(self) -> None:
            told.append(self.name)

    stand_in(Patient)
    walk = discover()["house_walk"]
    entries = {name: walk._replace(name=name) for name in "abc"}
    flag = StopFlag()
    jobs = suite.Suite(list("abc"), entries, [], [], 2, flag)
    assert list(jobs.start()) == ["a", "b"]
    flag.number = 15
    statuses: dict[str, int] = {}
    while came := jobs.finished():
        statuses |= {result.name: result.status for result in came}
        assert list(jobs.start()) == []
    assert statuses == {"a": 143, "b": 143} and told == ["a", "b"] and jobs.waiting == ["c"]


def test_pages_that_cannot_be_written_end_what_runs_after_it_has_saved(
    results: Path,
    stand_in: Callable[[Callable], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told, saved = list[str](), list[str]()

    class Patient(Slowly):
        def wait(self, timeout: float | None = None) -> int:
            if self.name == "a":
                return 0
            if self.name not in told:
                raise subprocess.TimeoutExpired("run", timeout or 0)
            saved.append(self.name)
            return 143

        def terminate(self) -> None:
            told.append(self.name)

    def full(self: object, ended: list[suite.Result]) -> str:
        if ended:
            raise OSError(errno.ENOSPC, "No space left on device")
        return ""

    stand_in(Patient)
    monkeypatch.setattr(reproduce._Pages, "write", full)
    walk = discover()["house_walk"]
    entries = {name: walk._replace(name=name) for name in "abc"}
    options = {"scale": "tiny", "seed": "", "only": "", "again": "no", "reuse": "code"}
    with pytest.raises(OSError, match="No space left"):
        reproduce._suite(list("abc"), entries, options, [], 2)
    assert told == saved == ["b"], "c was not started, and b is not left behind"


def test_the_numbers_are_held_against_the_accepted_ones(
    walk: Callable[..., int],
    children: list[list[str]],
    results: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    kept = results / "house_walk" / "accepted"
    rows = json.loads((kept / "claims.json").read_text())
    rows[1]["measured"] |= {"value": -177.0, "low": -178.0, "high": -176.0}
    write_json(kept / "claims.json", rows)
    settled = json.loads((kept / "settled.json").read_text())
    settled["sha256"]["claims.json"] = checksum(kept / "claims.json")
    write_json(kept / "settled.json", settled)
    capsys.readouterr()
    assert reproduce.main(["only=house_walk,house_reader", "scale=tiny"]) == 0
    out = capsys.readouterr().out
    assert "of all 2 claims: 1 agree here, 1 differ\n" in out
    assert f"  {rows[1]['id']}: " in out and "-177 [-178, -176] accepted: apart" in out
    assert "not compared, no accepted run: house_reader" in out
    page = "".join(p.read_text() for p in (results / "latest" / "claims").glob("*.md"))
    assert "| here |" in page and "**differs**: " in page and "| agrees: " in page
    report = (results / "latest" / "report.html").read_text()
    assert 'data-here="differs"' in report and '<select name="here">' in report
    chapter = (results / "latest" / "gallery" / "further.md").read_text()
    (link,) = re.findall(r"\[The same figure, computed here\]\(([^)]+)\)", chapter)
    assert "accepted" not in link and (results / "latest" / "gallery" / link).is_file()
    # Other settings: what differs then is not held against the run here.
    spec = json.loads((kept / "spec.json").read_text())
    write_json(kept / "spec.json", spec | {"steps": 7})
    write_manifest(kept, left_out=DERIVED)
    assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    out = capsys.readouterr().out
    assert "of all 2 claims: 1 agree here, 1 at other settings\n" in out


def test_pages_come_before_anything_is_computed(
    walk: Callable[..., int],
    children: list[list[str]],
    results: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    shutil.rmtree(finished_runs("house_walk")[0])
    capsys.readouterr()
    seen: list[str] = []
    child = suite.subprocess.Popen

    def looked_first(command: list[str], **options: object) -> object:
        seen.append((results / "latest" / "CLAIMS.md").read_text())
        return child(command, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite.subprocess, "Popen", looked_first)
        assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("open ") and "report.html: the accepted runs of 1 experiments" in out
    assert "agree here" not in seen[0] and "1 holds" in seen[0].replace("hold", "holds")
    assert "agree here" in (results / "latest" / "CLAIMS.md").read_text()


def test_a_damaged_accepted_run_is_named_and_left_out(
    walk: Callable[..., int],
    children: list[list[str]],
    results: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    (results / "house_walk" / "accepted" / "spec.json").write_text("{}")
    capsys.readouterr()
    assert reproduce.main(["only=house_reader", "scale=tiny"]) == 1
    out = capsys.readouterr().out
    assert "must be whole, but spec.json is damaged: git brings it back" in out
    assert "damaged, and left out of the pages: house_walk/accepted" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["only=house_wolk"], "house_wolk is not an experiment (did you mean 'house_walk'?)"),
        (["scale=huge"], "scale=huge must be one of tiny, quick, evening, paper"),
        (["jobs=0"], "jobs=0 must be a whole number from 1 to "),
        (["jobs=two"], "jobs=two must be a whole number from 1 to "),
        (["onli=a"], "onli=a is no option (did you mean 'only'?)"),
    ],
)
def test_mistakes(
    results: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert reproduce.main(arguments) == 2
    assert message in capsys.readouterr().err
    assert reproduce.main(["--help"]) == 0
