"""The suite: most statements first, nothing stops the rest, pages after each."""

import errno
import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from functools import partial
from io import StringIO
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from circuitax.commands import accept, reproduce, run, suite, workers
from circuitax.commands.suite_view import SAID, Bars, Lines
from circuitax.commands.worker import Job
from circuitax.commands.workers import Pool
from circuitax.config.catalogue import ExperimentEntry, discover
from circuitax.data.files import checksum
from circuitax.lab import runs
from circuitax.lab.busy import held
from circuitax.lab.runs import DERIVED, finished_runs, provenance, run_folder
from circuitax.lab.stop import StopFlag
from circuitax.lab.times import times_of
from circuitax.records.manifest import write_manifest
from circuitax.records.store import write_json


def test_most_published_statements_for_their_seconds_come_first(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = {"fast": 4, "slow": 9, "read": 8, "reader": 1, "again": 2, "none": 0, "cheap": 0}
    seconds = {"fast": 2, "slow": 90, "read": 16, "reader": 1, "again": 9, "none": 5, "cheap": 1}
    walk = discover()["house_walk"]
    entries = {
        name: walk._replace(
            name=name,
            budget_seconds=seconds[name],
            requires=("read",) if name in ("reader", "again") else (),
        )
        for name in published
    }

    def claims(entry: ExperimentEntry) -> list[SimpleNamespace]:
        ours = [SimpleNamespace(origin="ours")] * 50
        return ours + [SimpleNamespace(origin="published")] * published[entry.name]

    monkeypatch.setattr(ExperimentEntry, "load_claims", claims)
    # By statements a second: 2; of what is read 8 in 16 (with a reader 9 in 17), then 1 in 1 and
    # 2 in 9; 9 in 90.
    wanted = ["fast", "read", "reader", "again", "slow", "cheap", "none"]
    assert reproduce.most_first(sorted(entries), entries) == wanted
    # What a reader requires costs and counts with it: 10 in 25 against 9 in 90.
    assert reproduce.most_first(["slow", "again"], entries) == ["read", "again", "slow"]


def test_the_suite(children: list[Job], results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["only=house_reader", "scale=tiny", "seed=1"]) == 0
    out = capsys.readouterr().out
    assert [job.name for job in children] == ["house_walk", "house_reader"]
    assert children[0].overrides == ("experiment=house_walk", "scale=tiny", "seed=1")
    assert all(job.alone for job in children)
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


def test_finished_runs_are_found_in_several_processes(children: list[Job], results: Path) -> None:
    assert reproduce.main(["only=house_reader", "scale=tiny"]) == 0
    names, stop = ["house_reader", "house_walk"] * 4, StopFlag()
    look = partial(reproduce._finished, entries=discover(), overrides=["scale=tiny"])
    found = [reproduce._there(names, look, jobs, stop) for jobs in (1, 2)]
    alone, beside = ([(item.name, item.status, item.run) for item in part] for part in found)
    assert beside == alone and [name for name, *_ in alone] == names
    other = partial(look, overrides=["scale=tiny", "seed=1"])
    assert not list(reproduce._there(names, other, 2, stop))


def test_a_signal_ends_the_search_for_finished_runs(
    children: list[Job],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed = ["only=house_walk,house_reader", "scale=tiny"]
    assert reproduce.main(typed) == 0
    looked, done = [], len(children)

    def look(name: str, **_: Any) -> None:
        looked.append(name)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(reproduce, "_finished", look)
    assert reproduce.main(typed) == 143
    assert len(looked) == 1 and len(children) == done
    assert "stopped after 0 of 2" in capsys.readouterr().out


def test_again_is_for_the_experiments_named(
    children: list[Job], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce.main(["only=house_reader", "scale=tiny", "again=yes"]) == 0
    assert [("again=true" in job.overrides) for job in children] == [False, True]
    assert reproduce.main(["again=often"]) == 2


def test_pages_keep_what_was_reproduced_before(children: list[Job], results: Path) -> None:
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
    children: list[Job], results: Path, capsys: pytest.CaptureFixture[str]
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
    children: list[Job],
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
    children: list[Job], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = results / ".work" / "0123456789ab"
    work.mkdir(parents=True)
    os.utime(work, (0, 0))
    assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "removed" in text]
    assert line.endswith("90 days, of 1 run: 0123456789ab") and not work.exists()


def test_a_failure_is_named_and_the_rest_goes_on(
    children: list[Job],
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
    typed = [text for job in children for text in job.overrides]
    assert not any(text.startswith("seed=") for text in typed), "each has its own configuration's"
    assert "Not run yet" in (results / "latest" / "README.md").read_text()
    monkeypatch.setattr(walk, "run", original)


def test_a_signal_is_passed_on(
    results: Path,
    stand_in: Callable[[type], None],
    child: type,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sent: list[int] = []
    flags: list[Any] = []

    class Flag(reproduce.StopFlag):
        def __enter__(self) -> "Flag":
            flags.append(self)
            return self

    class Slow(child):
        def compute(self, job: Job) -> None:
            flags[0].number = 15

        def terminate(self) -> None:
            sent.append(15)
            self.leave("stopped")
            self.answer(15)

    monkeypatch.setattr(reproduce, "StopFlag", Flag)
    stand_in(Slow)
    assert reproduce.main(["only=house_walk,house_reader", "scale=tiny"]) == 143
    assert sent == [15]
    out = capsys.readouterr().out
    assert "stopped after 1 of 2: the pages show what is there" in out
    assert (results / "latest" / "report.html").is_file() and "gallery: " in out


def test_side_by_side(
    stand_in: Callable[[type], None], child: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[Any] = []
    seen: dict[str, set[str]] = {}

    class Slowly(child):
        """A worker that ends as soon as it is waited for: what ran beside it is noted."""

        def __init__(self, show: Callable[[str], None] | None) -> None:
            super().__init__(show)
            self.show = show

        def compute(self, job: Job) -> None:
            assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
            assert isinstance(self.show, partial) and self.show.args == (job.name,)
            running.append(self)
            names = {child.job.name for child in running}
            for name in names:
                seen.setdefault(name, set()).update(names)

        def fileno(self) -> int:
            if not self._here.poll():
                self.leave("done")
                self.answer()
            return super().fileno()

        def join(self) -> None:
            running.remove(self)

    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
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
    jobs = suite.Suite(list(entries), entries, ["scale=tiny"], [], Pool(2, StopFlag()))
    begun, ended = [], []
    while True:
        begun += list(jobs.start())
        if not (came := jobs.finished()):
            break
        ended += [result.name for result in came]
    assert begun == ["a", "b", "reads_a", "c", "timed", "d"], "no job idles for the timed one"
    assert sorted(ended) == sorted(entries)
    beside = {name: others - {name} for name, others in seen.items()}
    assert beside["a"] == {"b"}, "a reader waits, and the next in order takes its place"
    assert beside["timed"] == beside["d"] == set() and beside["c"] == {"reads_a"}


def test_output_of_a_worker_is_told_apart(capfd: pytest.CaptureFixture[str]) -> None:
    shown, output = Pipe(duplex=False)
    os.write(output.fileno(), b"working\nhalf a line")
    output.close()
    workers._copy(shown, partial(Lines(named=True).line, "walk"))
    assert capfd.readouterr().out == "walk: working\nwalk: half a line\n"


def test_a_terminal_has_a_bar_and_a_line_for_each_experiment(tmp_path: Path) -> None:
    terminal = StringIO()
    view = Bars(terminal, {"walk": 100.0, "reader": None})
    for name in ("walk", "reader"):
        view.began(name, tmp_path / name)
    view.line("walk", "walk: 3/10 chunks")
    view.line("reader", "out of luck")
    view.coming("[2/9] reader, about 3 min left")
    view.tick()
    drawn = terminal.getvalue()
    assert "\r  [2/9] reader, about 3 min left" in drawn, "a line that is drawn again, and no other"
    assert re.search(r"walk  0 s, 100 s left  3/10 chunks", drawn)
    assert re.search(r"reader  0 s  out of luck", drawn)
    view.ended("walk", "  walk done, 0 s: 3 agree", failed=False)
    view.ended("reader", "  reader FAILED, 0 s", failed=True)
    view.close()
    last = terminal.getvalue().removeprefix(drawn)
    assert last.endswith("\r"), "the line of the suite is gone"
    assert "walk done, 0 s: 3 agree" in last
    assert "out of luck" in last and str(tmp_path / "reader" / SAID) in last
    assert (tmp_path / "walk" / SAID).read_text() == "walk: 3/10 chunks\n"


def test_a_signal_reaches_all_that_run(stand_in: Callable[[type], None], child: type) -> None:
    told: list[str] = []

    class Patient(child):
        def compute(self, job: Job) -> None: ...

        def terminate(self) -> None:
            told.append(self.job.name)
            self.leave("stopped")
            self.answer(15)

    stand_in(Patient)
    walk = discover()["house_walk"]
    entries = {name: walk._replace(name=name) for name in "abc"}
    flag = StopFlag()
    jobs = suite.Suite(list("abc"), entries, [], [], Pool(2, flag))
    assert list(jobs.start()) == ["a", "b"]
    flag.number = 15
    statuses: dict[str, str] = {}
    while came := jobs.finished():
        statuses |= {result.name: result.status for result in came}
        assert list(jobs.start()) == []
    assert (
        statuses == {"a": "stopped", "b": "stopped"}
        and told == ["a", "b"]
        and jobs.waiting == ["c"]
    )


def test_pages_that_cannot_be_written_end_what_runs_after_it_has_saved(
    results: Path,
    stand_in: Callable[[type], None],
    child: type,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told, saved = list[str](), list[str]()

    class Patient(child):
        def compute(self, job: Job) -> None:
            if job.name == "a":
                self.leave("done")
                self.answer()

        def terminate(self) -> None:
            told.append(self.job.name)
            self.answer(15)

        def join(self) -> None:
            if self.job.name in told:
                saved.append(self.job.name)

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
    children: list[Job],
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
    stand_in: Callable[[type], None],
    child: type,
    results: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    shutil.rmtree(finished_runs("house_walk")[0])
    capsys.readouterr()
    seen: list[str] = []

    class LookedFirst(child):
        def compute(self, job: Job) -> None:
            seen.append((results / "latest" / "CLAIMS.md").read_text())
            super().compute(job)

    stand_in(LookedFirst)
    assert reproduce.main(["only=house_walk", "scale=tiny"]) == 0
    out = capsys.readouterr().out
    first, *later = out.splitlines()
    assert first == "writing the pages of what is accepted"
    assert later[0].startswith("open ") and "report.html: the accepted runs of 1 experiments" in out
    assert "agree here" not in seen[0] and "1 holds" in seen[0].replace("hold", "holds")
    assert "agree here" in (results / "latest" / "CLAIMS.md").read_text()


def test_a_damaged_accepted_run_is_named_and_left_out(
    walk: Callable[..., int],
    children: list[Job],
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
