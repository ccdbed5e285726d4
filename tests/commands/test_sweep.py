"""Sweeps: every job checked first, failures named at the end, runs merged with nothing missing."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from omegaconf import DictConfig

from circuitax.commands import collect, job
from circuitax.commands.run import help_text, main
from circuitax.config.catalogue import checkout, discover, upstream_order
from circuitax.config.planned_runs import plan
from circuitax.lab.runs import DERIVED, finished_runs
from circuitax.records.manifest import write_manifest
from circuitax.records.record import Record

# Hydra's own launcher, which starts no worker: jobs that are merged are as good from here.
IN_THIS_PROCESS = ("hydra/launcher=basic",)


def test_a_failing_job_does_not_stop_the_others(
    walk: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("-m", "fail=error,''", "seed=0,1") == 1
    said = capsys.readouterr().err
    assert "2 of 4 jobs done" in said
    summary = said[said.rindex("2 of 4 jobs done") :]
    for seed in (0, 1):
        assert f"failed: experiment=house_walk scale=tiny fail=error seed={seed}: " in summary
    assert summary.count("RuntimeError: the walk was told to fail") == 2
    assert len(finished_runs("house_walk")) == 2
    logs = list(Path(finished_runs("house_walk")[0].parents[1]).glob(".work/sweeps/*/*/*.log"))
    assert sum("told to fail" in path.read_text() for path in logs) == 2


def test_a_second_sweep_into_one_folder_reads_no_old_status(
    walk: Callable[..., int],
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = results / "own"
    sweep = ["-m", *IN_THIS_PROCESS, f"hydra.sweep.dir={folder}", "seed=0,1"]
    assert walk(*sweep) == 0
    assert json.loads((folder / "1" / "circuitax-status.json").read_text())["status"] == "done"
    (folder / "circuitax-stopped").write_text("15")  # of a sweep before: it stops nobody now
    capsys.readouterr()
    # As a job whose machine dies: it leaves no word of its own.
    monkeypatch.setattr(job, "leave", lambda *word: None)
    assert walk(*sweep) == 1
    said = capsys.readouterr().err
    assert said.count("is there already") == 2 and "0 of 2 jobs done" in said
    summary = said[said.index("0 of 2 jobs done") :].splitlines()[1:]
    assert [line.split(":")[0].strip() for line in summary] == ["missing", "missing"]


def test_a_damaged_run_is_not_merged(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("-m", *IN_THIS_PROCESS, "seed=0,1") == 0
    run = finished_runs("house_walk")[-1]
    (run / "data.nc").write_bytes(b"")
    capsys.readouterr()
    assert collect.main(["experiment=house_walk"]) == 2
    assert f"{run.name} must be whole, but data.nc is damaged" in capsys.readouterr().err
    assert not (results / "house_walk" / "collected").exists()


def test_a_sweep_becomes_one_dataset(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("-m", *IN_THIS_PROCESS, "step.size=1,2", "seed=0,1,2") == 0
    assert collect.main(["experiment=house_walk"]) == 0
    assert "6 runs" in capsys.readouterr().out
    (folder,) = (results / "house_walk" / "collected").iterdir()
    data = Record.load(folder).data
    assert dict(data.sizes) == {"size": 2, "seed": 3, "chunk": 4, "rate": 2, "member": 3}
    position = data["position"].transpose("seed", "size", ...)
    np.testing.assert_allclose(position.sel(size=2), 2 * position.sel(size=1), rtol=1e-5, atol=1e-6)
    assert not np.allclose(position.sel(seed=0), position.sel(seed=1))
    assert (folder / "tables" / "seed-size.csv").read_text().startswith("size,seed,")
    assert data["start_n"].dtype.kind == "i"
    # again: the folder is replaced, not mixed
    assert collect.main(["experiment=house_walk", "over=step.size,seed"]) == 0


def test_hydra_composes_no_job_that_was_checked(
    walk: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: list[list[str]] = []
    compose = ConfigLoaderImpl.load_sweep_config

    def counting(self: ConfigLoaderImpl, master_config: DictConfig, sweep_overrides: list[str]):
        composed.append(sweep_overrides)
        return compose(self, master_config, sweep_overrides)

    monkeypatch.setattr(ConfigLoaderImpl, "load_sweep_config", counting)
    assert walk("-m", *IN_THIS_PROCESS, "seed=0,1") == 0
    assert [job[-1] for job in composed] == ["seed=0", "seed=1"]  # by the launcher alone


def test_jobs_and_an_axis_inside_a_run_are_one_dataset(
    walk: Callable[..., int], results: Path
) -> None:
    assert walk("-m", *IN_THIS_PROCESS, "rate=0.1,0.2,0.4") == 0
    assert collect.main(["experiment=house_walk"]) == 0
    (as_jobs,) = (results / "house_walk" / "collected").iterdir()
    jobs = Record.load(as_jobs).data
    assert walk("rate=[0.1,0.2,0.4]") == 0
    inside = Record.load(finished_runs("house_walk")[-1]).data
    assert jobs["rate"].values.tolist() == [0.1, 0.2, 0.4]
    assert dict(jobs["position"].sizes) == dict(inside["position"].sizes)
    assert collect.main(["experiment=house_walk", "sweep=nothing"]) == 2


@pytest.mark.slow
def test_seeds_of_runs_that_hold_seeds_are_collected(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The sweep that --help shows: networks inside a run are counted by seed too.
    arguments = ["experiment=toy_intro", "scale=tiny", "model.kind=dense", "task.sparsity=0.5"]
    assert main(["-m", *IN_THIS_PROCESS, *arguments, "optim.steps=50", "seed=0,1,2"]) == 0
    assert collect.main(["experiment=toy_intro"]) == 0
    (folder,) = (results / "toy_intro" / "collected").iterdir()
    data = Record.load(folder).data
    assert data.sizes["run_seed"] == 3 and data.sizes["seed"] == 2
    first, second, _ = (data["loss"].isel(run_seed=i).values for i in range(3))
    assert not np.allclose(first, second)


def printed_sweeps() -> list[str]:
    """Every sweep of an experiment that README, pages, configurations and ``--help`` print."""
    root = checkout()
    files = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("conf/**/*.yaml")]
    texts = [path.read_text() for path in files]
    texts.append(help_text(discover()))
    found = set()
    for text in texts:
        whole = re.sub(r"\\\n\W*", " ", text)  # commands go on in the next line
        for command in re.findall(r"python -m experiments\.run -m ([^#`\n]+)", whole):
            words = [w for w in command.split() if not w.startswith(("hydra", "scale="))]
            # Two values of each field say as much as three, or as a range.
            two = [re.sub(r"range\((\d+),\d+\)", _first_two, word) for word in words]
            found.add(" ".join(",".join(word.split(",")[:2]) for word in two))
    return sorted(found)


def _first_two(found: re.Match[str]) -> str:
    first = int(found[1])
    return f"{first},{first + 1}"


@pytest.mark.slow
@pytest.mark.parametrize("typed", printed_sweeps())
def test_every_sweep_that_is_printed_is_collected(
    results: Path, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    named = re.search(r"experiment=(\w+)", typed)
    assert named is not None
    if named[1] not in discover():
        pytest.skip("an experiment of the reader's own")
    n_runs = 2 ** typed.count(",")
    if "text_models" in upstream_order(named[1], discover()):
        # Minutes, for the models of text; seeds and widths are collected by the other tests here.
        assert len(plan([*typed.split(), "scale=tiny"], discover(), multirun=True)[1]) == n_runs
        return
    arguments = ["-m", *IN_THIS_PROCESS, *typed.split(), "scale=tiny"]
    assert main(arguments) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert collect.main([f"experiment={named[1]}"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.startswith(f"{n_runs} runs, ")


def test_missing_runs_and_members_are_named(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("-m", *IN_THIS_PROCESS, "seed=0,1", "fail='',error") == 1
    capsys.readouterr()
    assert collect.main(["experiment=house_walk"]) == 2
    said = capsys.readouterr().err
    assert "2 runs of sweep" in said and "seed=1 fail=error" in said
    assert collect.main(["experiment=house_walk", "missing=allow"]) == 0
    assert "missing: " in capsys.readouterr().out

    assert walk("-m", *IN_THIS_PROCESS, "members=2,4") == 0
    capsys.readouterr()
    assert collect.main(["experiment=house_walk"]) == 2
    assert "missing: members=2, member=2; members=2, member=3" in capsys.readouterr().err
    shutil.rmtree(results / "house_walk")
    assert collect.main(["experiment=house_walk"]) == 2
    assert "has no finished run to collect" in capsys.readouterr().err


def test_a_field_that_follows_another_is_no_axis(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # As a configuration does that says fail: ${...} of the size.
    assert walk("-m", *IN_THIS_PROCESS, "step.size=1,2") == 0
    small, _ = finished_runs("house_walk")
    spec = small / "spec.json"
    text = spec.read_text()
    spec.write_text(text.replace('"fail": ""', '"fail": "none"'))
    assert spec.read_text() != text
    write_manifest(small, left_out=DERIVED)
    capsys.readouterr()
    assert collect.main(["experiment=house_walk"]) == 0
    assert "follow the axes: fail" in capsys.readouterr().out
    assert collect.main(["experiment=house_walk", "over=step.size"]) == 0
    (folder,) = (results / "house_walk" / "collected").iterdir()
    assert Record.load(folder).notes["axes"] == ["step.size"]
    assert collect.main(["experiment=house_walk", "over=fail"]) == 2
    assert "over=fail leaves out step.size" in capsys.readouterr().err


def test_a_sweep_is_drawn_and_kept_when_drawing_fails(
    walk: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("-m", *IN_THIS_PROCESS, "seed=0,1") == 0
    capsys.readouterr()
    monkeypatch.setattr(collect, "draw_figures", lambda run, module, function: [run / function])
    assert collect.main(["experiment=house_walk"]) == 0
    assert "SWEEP_FIGURES" in capsys.readouterr().out

    def fail(run: Path, module: Path, function: str) -> list[Path]:
        raise KeyError("no such axis")

    monkeypatch.setattr(collect, "draw_figures", fail)
    assert collect.main(["experiment=house_walk"]) == 1
    said = capsys.readouterr()
    assert "2 runs" in said.out and "error: figures failed: KeyError: 'no such axis'" in said.err


def test_collect_says_what_it_cannot_do(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect.main(["--help"]) == 0
    assert walk("-m", *IN_THIS_PROCESS, "seed=0,1", "step.size=1,2") == 0
    for arguments, message in (
        (["over=sede"], "over=sede must be one of"),
        (["over=seed"], "over=seed leaves out step.size, in which the runs differ too"),
        (["missing=maybe"], "missing=maybe must be one of fail, allow"),
        (["swep=all"], "swep=all is no option (did you mean 'sweep'?)"),
        (["sweep=never"], "sweep=never must be latest, all or one of"),
    ):
        capsys.readouterr()
        assert collect.main(["experiment=house_walk", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert collect.main(["experiment=house_wolk"]) == 2
    assert collect.main(["sweep=all"]) == 2


@pytest.mark.slow
def test_jobs_on_all_cores(start: Callable, results: Path, walk: Callable[..., int]) -> None:
    arguments = ["-m", "hydra/launcher=cores", "hydra.launcher.n_jobs=2"]
    arguments += ["experiment=house_walk", "scale=tiny", "seed=0,1", "step.law=normal"]
    process = start("experiments.run", *arguments, "fail='',error")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1, out + err
    assert "2 of 4 jobs done" in err
    assert err.count("RuntimeError: the walk was told to fail") >= 2
    found = {
        Record.load(run).data["position"].values.tobytes() for run in finished_runs("house_walk")
    }
    for run in finished_runs("house_walk"):
        shutil.rmtree(run)
    assert walk("seed=0") == walk("seed=1") == 0
    alone = {
        Record.load(run).data["position"].values.tobytes() for run in finished_runs("house_walk")
    }
    assert found == alone and len(found) == 2
