"""One experiment from the command line: what is run, and what is refused before anything is."""

import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig

from circuitax.commands import entry, run, start
from circuitax.config import catalogue
from circuitax.config.catalogue import discover
from circuitax.lab import arrays, conduct, runs
from circuitax.lab.runs import finished_runs, provenance
from circuitax.records import store
from circuitax.records.manifest import damage
from circuitax.records.record import Record

HOUSE = Path(__file__).parent.parent / "house"


def test_a_run_is_made_and_reused(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("rate=0.5", "seed=3") == 0
    (folder,) = finished_runs("house_walk")
    said = capsys.readouterr().err
    assert f"house_walk {folder.name} done in" in said and "claims: 2 hold" in said
    number = r"-?[\d.]+(e-\d+)?( \[\S+, \S+\])?, wanted .+: holds, n = \d+"
    assert re.search(rf"^  walk-spreads: {number}$", said, re.MULTILINE), said
    facts = provenance(folder)
    assert facts["command"] == (
        "python -m experiments.run experiment=house_walk scale=tiny rate=[0.5] seed=3"
    )
    assert facts["seed"] == 3
    assert walk("seed=3", "rate=[0.5]") == 0
    assert "is there already" in capsys.readouterr().err
    assert finished_runs("house_walk") == [folder]


def test_again_computes_a_finished_run(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, asked in enumerate([[], ["--again"], ["again=yes"]]):
        assert walk(*asked) == 0
        (folder,) = finished_runs("house_walk")
        said = capsys.readouterr().err
        assert said.count(" done in ") == 1, number
        assert said.count("is computed again: again=true asks for it") == bool(asked)
    assert walk() == 0
    assert "is there already" in capsys.readouterr().err
    assert "again" not in (folder / "overrides.yaml").read_text()


def test_a_damaged_run_is_said_and_computed_again(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk() == 0
    (folder,) = finished_runs("house_walk")
    whole = (folder / "data.nc").read_bytes()
    (folder / "data.nc").write_bytes(whole[:100])
    capsys.readouterr()
    assert walk() == 0
    said = capsys.readouterr().err
    assert f"house_walk/{folder.name} is computed again: data.nc is damaged\n" in said
    assert " done in " in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["n_stepz=3"], "n_stepz=3 names no field (did you mean 'n_steps'?)"),
        (["+step.mass=1"], "+step.mass=1 names no field"),
        (["n_steps=many"], "n_steps=many must be an integer"),
        (["step.size=0"], "step.size=0.0 must be positive"),
        (["-m", "n_steps=glob(*)"], "n_steps=glob(*) must sweep over values"),
        (["-m", "n_steps=range(2,2)"], "n_steps=range(2,2) sweeps over nothing"),
        (["-m", "step.size=1,0"], "step.size=0.0 must be positive"),
        (["seed=0", "seed=1"], "seed is given twice"),
        (["-cn", "other"], "-cn is not offered: name an experiment, as in experiment=NAME"),
        (["-m", "seed=range(0,1e9)"], "the sweep has 1,000,000,000 jobs, it must have at most"),
    ],
)
def test_mistakes_cost_one_line_and_nothing_else(
    walk: Callable[..., int],
    results: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert walk(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    assert message in said
    assert not results.exists()


def test_a_wrong_name_is_corrected(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["experiment=house_wolk"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "(did you mean 'house_walk'?)" in said


def test_help_lists_what_there_is(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--help"]) == 0
    text = capsys.readouterr().out
    for words in ("house_walk", "A random walk", "tiny", "paper", "-m", "hydra/launcher=cores"):
        assert words in text
    assert run.main([]) == 2


def test_a_run_is_composed_once_and_its_calls_are_those_of_the_architecture(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[list[str]] = []
    compose = ConfigLoaderImpl.load_configuration
    calls: list[str] = []
    module = discover()["house_walk"].load()
    original = module.run

    def counting(self: ConfigLoaderImpl, *arguments: Any, **options: Any) -> DictConfig:
        composed.append(options["overrides"])
        return compose(self, *arguments, **options)

    def traced(*arguments: Any) -> Record:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "enter":
            # Without the shape checks that tests put around every function.
            if re.search("/src/circuitax/|/hydra/", frame.f_code.co_filename):
                calls.append(frame.f_code.co_name)
            frame = frame.f_back
        return original(*arguments)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counting)
    monkeypatch.setattr(module, "run", traced)
    monkeypatch.setattr(start, "defer_work", lambda: None)
    typed = ["experiments.run", "experiment=house_walk", "scale=tiny"]
    monkeypatch.setattr(sys, "argv", typed)
    assert entry.enter("circuitax.commands.start", "start") == 0
    assert [job[:2] for job in composed] == [typed[1:]]
    text = (HOUSE.parents[1] / "docs/architecture.md").read_text()
    table = re.findall(r"\| \d+ \| [^|]*`(?:[\w/]+\.py::)?(\w+)`", text)
    assert table[-1] == "run" and len(table) <= 12
    # What a decorator returns has another name than the decorator.
    called = ["disk_in_one_line" if name == "command" else name for name in reversed(calls)]
    assert called == table[1:-1]


def test_a_failing_experiment_exits_with_1(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("fail=error") == 1
    assert "the walk was told to fail" in capsys.readouterr().err
    assert not finished_runs("house_walk")


def test_a_failing_figure_exits_with_1_and_keeps_the_data(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("fail=figure") == 1
    said = capsys.readouterr().err
    assert "the data are kept, but figures failed: KeyError" in said and "Traceback" not in said
    assert len(finished_runs("house_walk")) == 1


def test_configuration_can_be_asked_for(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("--cfg", "job") == 0
    assert "n_steps: ${by_scale:4,20,1000}" in capsys.readouterr().out


def test_upstream_runs_come_by_themselves(results: Path) -> None:
    assert run.main(["experiment=house_reader", "scale=tiny"]) == 0
    (walked,), (read,) = finished_runs("house_walk"), finished_runs("house_reader")
    assert provenance(read)["inputs"] == {"house_walk": walked.name}


def test_hydra_leaves_its_folders_apart(walk: Callable[..., int], results: Path) -> None:
    assert walk() == 0
    (status,) = (results / ".work" / "hydra").glob("*/circuitax-status.json")
    left = json.loads(status.read_text())
    assert (left["status"], left["run"]) == ("done", finished_runs("house_walk")[0].name)
    assert (status.parent / ".hydra" / "config.yaml").is_file()
    assert {path.name for path in results.iterdir()} == {".work", "house_walk"}


def test_abandoned_work_goes_once_all_that_was_asked_for_is_there(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, days = results / ".work" / "0123456789ab", 100
    work.mkdir(parents=True)
    os.utime(work, (time.time() - days * 86_400,) * 2)
    assert walk("fail=error") == 1
    assert walk(f"hydra.run.dir={results / 'part'}") == 0  # as reproduce calls it
    assert work.is_dir() and "removed" not in capsys.readouterr().err
    assert walk() == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-1].endswith("nobody touched for 90 days, of 1 run: 0123456789ab")
    assert not work.exists()


def test_the_paper_estimate_comes_first(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(conduct, "_compute", lambda cell, lab: said.append(capsys.readouterr().err))
    run.main(["experiment=house_walk", "scale=paper"])
    assert "at paper scale: about 2.0 h expected on 2 cores" in said[0]


@pytest.mark.parametrize("multirun", [(), ("-m", "hydra/launcher=basic")], ids=["one", "sweep"])
def test_folders_may_have_any_name(
    walk: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    multirun: tuple[str, ...],
) -> None:
    place = tmp_path / "Müller & Søn, [x]={1}~(2)!#;'\"$ \\"
    monkeypatch.setenv(runs.VARIABLE, str(place / "results"))
    copytree(HOUSE, place / "house")
    monkeypatch.setenv(catalogue.VARIABLE, str(place / "house"))
    assert walk(*multirun) == 0
    assert len(finished_runs("house_walk")) == 1
    assert len(list((place / "results").glob(".work/*/*/**/circuitax-status.json"))) == 1


def test_a_full_disk_is_one_line_and_loses_nothing(
    walk: Callable[..., int],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(folder: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    with monkeypatch.context() as patched:
        patched.setattr(conduct, "publish", full)
        assert walk() == 1
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("error: ")] and "Traceback" not in said
    assert "No space left on device" in "".join(said) and "CIRCUITAX_RESULTS" in "".join(said)
    assert not list((results / "house_walk").glob("*/provenance.json"))
    assert walk() == 0
    assert "resumed" in capsys.readouterr().err


@pytest.mark.parametrize("kept", [0, 1, 2, 4, 11, 13, 16])
def test_a_disk_that_fills_up_is_one_line_at_whatever_file(
    walk: Callable[..., int],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kept: int,
) -> None:
    written: list[Path] = []

    def filling(path: Path, data: bytes) -> None:
        written.append(path)
        if len(written) > kept:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_bytes", filling)
        patched.setattr(arrays, "write_bytes", filling)
        assert walk() == 1
    said = capsys.readouterr().err
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "CIRCUITAX_RESULTS=FOLDER" in errors[0], said
    assert "Traceback" not in said and "Logging error" not in said
    assert walk() == 0
    (run_folder,) = finished_runs("house_walk")
    assert not damage(run_folder) and (run_folder / "figures" / "path.png").is_file()
    assert not list((results / ".work").glob("*.lock"))


def test_a_results_folder_that_cannot_be_is_refused(
    walk: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / "file" / "results"))
    assert walk() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: results folder") and "CIRCUITAX_RESULTS=FOLDER" in line


@pytest.mark.parametrize("option", ["hydra.run.dir", "--config-dir"])
def test_a_name_that_is_too_long_is_one_line(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert walk(f"{option}={'x' * 5000}") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and len(line) < 200
    assert "too long" in line or "does not exist" in line
