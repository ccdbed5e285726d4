"""Folders that are the user's, and places that are none: nothing is lost, and all is one line."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from circuitax.commands import accept, collect, events, generate, render, reproduce
from circuitax.commands.entry import enter
from circuitax.config.catalogue import checkout
from circuitax.lab import runs
from circuitax.lab.runs import finished_runs
from circuitax.records.record import Record

IN_THIS_PROCESS = ("-m", "hydra/launcher=basic")


def test_files_of_a_named_folder_stay(walk: Callable[..., int], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    kept = [mine / "status.json", mine / "0" / "status.json", mine / "a" / "status.json"]
    kept += [mine / "stopped", mine / "0" / "stopped"]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"of mine: {path.parent.name}")
    assert walk(f"hydra.run.dir={mine}") == 0
    assert walk(*IN_THIS_PROCESS, f"hydra.sweep.dir={mine}", "seed=0,1") == 0
    for path in kept:
        assert path.read_text() == f"of mine: {path.parent.name}"


def test_two_sweeps_in_one_folder_are_collected_each(
    walk: Callable[..., int], results: Path
) -> None:
    own = f"hydra.sweep.dir={results.parent / 'own'}"
    assert walk(*IN_THIS_PROCESS, own, "seed=0,1") == 0
    assert walk(*IN_THIS_PROCESS, own, "seed=4,5,6") == 0
    for sweep, sizes in (("own", 2), ("own.2", 3), ("latest", 3)):
        assert collect.main(["experiment=house_walk", f"sweep={sweep}"]) == 0
        label = "own.2" if sweep == "latest" else sweep
        folder = results / "house_walk" / "collected" / label
        assert Record.load(folder).data.sizes["seed"] == sizes


def test_the_newest_run_is_the_one_made_last(walk: Callable[..., int]) -> None:
    assert walk("seed=1") == 0
    (first,) = finished_runs("house_walk")
    os.utime(first / "provenance.json", (4e9, 4e9))  # made before the clock went back
    assert walk("seed=2") == 0
    assert finished_runs("house_walk")[0] == first


@pytest.mark.parametrize("name", ["${now:%S}", "a ${b} c"])
def test_a_results_folder_that_would_be_another_each_time(
    walk: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    monkeypatch.setenv(runs.VARIABLE, str(tmp_path / name))
    assert walk() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: results folder") and "must have a name without '${'" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("/dev/null", "=/dev/null must be a folder (File exists)"),
        ("/dev/null/a", "=/dev/null/a must be a folder (Not a directory)"),
        ("'a/${now:%S}'", "=a/${now:%S} must be the name of a folder, without ${...}"),
    ],
)
def test_no_folder_is_one_line(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str], given: str, message: str
) -> None:
    for typed in ([f"hydra.run.dir={given}"], ["-m", "seed=0,1", f"hydra.sweep.dir={given}"]):
        assert walk(*typed) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: hydra.") and line.endswith(message)


@pytest.mark.parametrize(
    ("main", "typed"),
    [
        (reproduce.main, ["only=house_walk", "scale=tiny"]),
        (accept.main, []),
        (collect.main, ["experiment=house_walk"]),
        (render.main, ["house_walk"]),
        (generate.main, ["house_walk", "let"]),
        (events.main, ["run=house_walk"]),
    ],
)
def test_a_loop_of_links_is_one_line(
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    main: Callable[[list[str]], int],
    typed: list[str],
) -> None:
    loop = results.parent / "loop"
    loop.symlink_to(loop)
    for place in (loop, loop / "results"):
        monkeypatch.setenv(runs.VARIABLE, str(place))
        assert main(typed) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")


def test_a_list_without_names_is_no_list_of_all(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for main, typed, said in (
        (reproduce.main, ["only=,,,"], "',,,' must name an experiment"),
        (accept.main, ["only=,"], "',' must name an experiment"),
        (
            collect.main,
            ["experiment=house_walk,house_stack"],
            "experiment=house_walk,house_stack must be one experiment",
        ),
    ):
        assert main(typed) == 2
        assert said in capsys.readouterr().err


def test_a_number_is_the_same_tomorrow(
    walk: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for typed, said in (
        ("seed=${now:%S}", "seed=${now:%S} must be an integer, and not what now says"),
        ("members='${oc.env:HOME}'", "members=${oc.env:HOME} must be an integer, and not what"),
        ("seed='${by_scale:${now:%S},2,3}'", "must be an integer, and not what now says"),
        ("rate=[1.0,'${ now : %S}']", "must be a list, each item a number, and not what now says"),
    ):
        assert walk(typed) == 2
        assert said in capsys.readouterr().err
    assert walk("members=${by_scale:2,3,4}", "n_steps=${members}") == 0
    (run,) = finished_runs("house_walk")
    assert Record.load(run).data["position"].shape == (2, 2, 2)


def test_ctrl_c_while_a_command_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Slow(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "slow_command", Slow("slow_command"))
    assert enter("slow_command") == 130
    assert capsys.readouterr().err.splitlines() == ["stopped"]
    commands = (checkout() / "experiments").glob("[a-z]*.py")
    imports = {
        path.stem: [line for line in path.read_text().splitlines() if line.startswith("from ")]
        for path in commands
        if path.stem != "benchmark"
    }
    assert {tuple(lines) for lines in imports.values()} == {
        ("from circuitax.commands.entry import enter",)
    }
