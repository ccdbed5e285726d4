"""Every cell of a command line is composed and checked before the first one starts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from circuitax.config.catalogue import ExperimentEntry, checkout, discover
from circuitax.config.plan import plan, split
from circuitax.config.spec import ConfigError

Entries = dict[str, ExperimentEntry]


def test_a_sweep_unfolds_into_the_cells_of_its_product(entries: Entries) -> None:
    typed = ["experiment=house_walk", "scale=tiny", "rate=0.1,[0.2,0.3]", "step.size=1,2"]
    checked, runs = plan(typed, entries, multirun=True)
    found = [(run.spec.rate, run.spec.step.size) for run in runs]
    assert found == [((0.1,), 1.0), ((0.1,), 2.0), ((0.2, 0.3), 1.0), ((0.2, 0.3), 2.0)]
    assert "rate=[0.1],[0.2,0.3]" in checked
    assert runs[1].overrides == ("experiment=house_walk", "scale=tiny", "rate=[0.1]", "step.size=2")
    assert len({run.id for run in runs}) == 4


@pytest.mark.parametrize(
    ("scale", "n_steps"), [("tiny", 4), ("quick", 20), ("evening", 20), ("paper", 1000)]
)
def test_values_follow_the_scale(entries: Entries, scale: str, n_steps: int) -> None:
    _, (run,) = plan(["experiment=house_walk", f"scale={scale}"], entries)
    assert run.spec.n_steps == n_steps


def test_a_reader_has_the_run_that_it_reads(entries: Entries) -> None:
    _, (reader,) = plan(["experiment=house_reader", "scale=tiny", "seed=3"], entries)
    _, (walk,) = plan(["experiment=house_walk", "scale=tiny", "seed=3"], entries)
    assert [item.id for item in reader.inputs] == [walk.id]
    _, (other,) = plan(["experiment=house_reader", "scale=tiny", "seed=4"], entries)
    assert other.id != reader.id


def test_asking_again_is_no_part_of_a_run(entries: Entries) -> None:
    typed = ["experiment=house_walk", "scale=tiny"]
    _, (run,) = plan(typed, entries)
    _, (again,) = plan([*typed, "again=true"], entries)
    assert again.settings.again
    assert (again.id, again.overrides, again.config) == (run.id, run.overrides, run.config)


def test_accepted_runs_keep_their_identities() -> None:
    kept = checkout() / "results/toy_intro/accepted/provenance.json"
    facts = json.loads(kept.read_text())
    fields = [f"{name}={facts[name]}" for name in ("scale", "seed", "dtype")]
    _, (run,) = plan(["experiment=toy_intro", *fields], discover())
    assert run.id == facts["run"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "experiment is missing"),
        (["experiment=house_wlak"], "did you mean 'house_walk'"),
        (["experiment=house_walk", "step.sise=1"], "did you mean 'step.size'"),
        (["experiment=house_walk", "n_steps=x"], "n_steps=x must be an integer"),
        (["experiment=house_walk", "step.law=cauchy"], "must be one of normal, uniform"),
        (["experiment=house_walk", "step.size=-1"], "step.size=-1.0 must be above 0"),
        (["experiment=house_walk", "step.size=nan"], "step.size=nan must be a finite number"),
        (["experiment=house_walk", "seed=1,2"], "seed=1,2 is a sweep: add -m"),
        (["experiment=house_walk", "+speed=1"], "+speed=1 names no field"),
        (["experiment=house_walk", "seed=1", "seed=2"], "seed is given twice"),
        (["experiment=house_walk", "seed"], "'seed' has no value"),
        (["experiment=house_walk", "seed=-1"], "seed=-1 must be between 0 and"),
        (["experiment=house_walk", "n_steps=???"], "n_steps is missing"),
    ],
)
def test_a_mistake_is_one_line(entries: Entries, typed: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=r"^[^\n]+$") as refused:
        plan(typed, entries)
    assert said in str(refused.value)


def test_one_bad_cell_ends_a_sweep_before_it_starts(entries: Entries) -> None:
    typed = ["experiment=house_walk", "step.size=1,2,0"]
    with pytest.raises(ConfigError, match=r"step\.size=0\.0 must be above 0"):
        plan(typed, entries, multirun=True)
    with pytest.raises(ConfigError, match="must have at most 10,000"):
        plan(["experiment=house_walk", "seed=range(20000)"], entries, multirun=True)


def test_a_key_of_a_yaml_file_that_is_no_field_is_named(entries: Entries, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "experiment").mkdir(parents=True)
    text = "# @package _global_\nn_steps: 3\nstep: {sise: 2}\n"
    (folder / "experiment" / "house_walk.yaml").write_text(text)
    with pytest.raises(ConfigError, match="sise"):
        here = {name: replace(entry, conf=folder) for name, entry in entries.items()}
        plan(["experiment=house_walk"], here)


def test_flags_are_told_from_fields() -> None:
    line = split(["-m", "experiment=a", "--again", "--cfg", "job"])
    assert line == (("experiment=a", "again=true"), ("--cfg", "job"), True)
    with pytest.raises(ConfigError, match="did you mean '--multirun'"):
        split(["--multirn"])


def test_a_text_of_ones_own_is_read_by_the_models_that_are_needed_alone(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a text of one's own\n" * 100)
    typed = ["experiment=one_layer_circuits", "scale=tiny"]
    (usual,), (own,) = (
        plan([*typed, *more], discover())[1][0].inputs for more in ([], [f"task.path={tmp_path}"])
    )
    assert own.spec.task.path == str(tmp_path)
    assert [name for name, _ in own.spec.models()] == ["layers-0", "layers-1"]
    assert "full" in dict(usual.spec.models())
