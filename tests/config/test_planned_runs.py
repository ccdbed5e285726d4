"""Cells composed through Hydra, and refused with one line where something is wrong."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from circuitax.config.catalogue import ExperimentEntry
from circuitax.config.planned_runs import PlannedRun, plan
from circuitax.config.scale import Precision, Scale
from circuitax.config.schema import ConfigError

WALK = "experiment=house_walk"


def cells(
    entries: dict[str, ExperimentEntry], *overrides: str, multirun: bool = False
) -> list[PlannedRun]:
    return plan([WALK, *overrides], entries, multirun=multirun)[1]


def test_a_cell_is_a_frozen_spec(entries: dict[str, ExperimentEntry]) -> None:
    (cell,) = cells(entries, "scale=tiny", "step.law=uniform", "rate=[1,2]", "dtype=float64")
    module = entries["house_walk"].load()
    assert cell.spec == module.Spec(
        step=module.Step(law=module.Law.uniform), n_steps=4, rate=(1.0, 2.0)
    )
    assert (cell.settings.scale, cell.settings.dtype) == (Scale.tiny, Precision.float64)
    assert "n_steps: 4" in cell.config
    assert hash(cell.spec) is not None


def test_scale_moves_values_and_an_override_replaces_them(
    entries: dict[str, ExperimentEntry],
) -> None:
    assert [c.spec.n_steps for c in cells(entries)] == [20]
    assert [c.spec.n_steps for c in cells(entries, "scale=paper")] == [1000]
    assert [c.spec.n_steps for c in cells(entries, "scale=paper", "n_steps=7")] == [7]


def test_identity_follows_values_not_typing(entries: dict[str, ExperimentEntry]) -> None:
    (plain,) = cells(entries)
    (typed,) = cells(entries, "n_steps=20", "step.size=1")
    (other,) = cells(entries, "n_steps=21")
    assert plain.id == typed.id != other.id


def test_a_sweep_is_composed_whole(entries: dict[str, ExperimentEntry]) -> None:
    found = cells(entries, "seed=0,1", "rate=0.5,[0.1,0.7]", multirun=True)
    assert [(c.settings.seed, c.spec.rate) for c in found] == [
        (0, (0.5,)),
        (0, (0.1, 0.7)),
        (1, (0.5,)),
        (1, (0.1, 0.7)),
    ]
    assert len({c.id for c in found}) == 4
    with pytest.raises(ConfigError, match=r"step.size=-1.0 must be positive"):
        cells(entries, "step.size=1,2,-1", multirun=True)


def test_a_changed_text_is_another_run(entries: dict[str, ExperimentEntry], tmp_path: Path) -> None:
    """The same path with another content, as when the corpus grew."""

    def cell() -> PlannedRun:
        return plan(["experiment=text_models", "scale=tiny", f"task.path={tmp_path}"], entries)[1][
            0
        ]

    (tmp_path / "one.txt").write_text("once upon a time")
    first = cell()
    assert cell().id == first.id
    assert [field for field, _ in first.outside] == ["task.path"]
    (tmp_path / "one.txt").write_text("once upon a tide")
    assert cell().id != first.id


def test_a_relative_path_seen_from_two_folders_is_two_runs(
    entries: dict[str, ExperimentEntry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for folder, text in (("one", "tick"), ("two", "tock"), ("three", "tick")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text.txt").write_text(text)
        monkeypatch.chdir(tmp_path / folder)
        typed = ["experiment=text_models", "scale=tiny", "task.path=text.txt"]
        found.append(plan(typed, entries)[1][0].id)
    assert found[0] == found[2] != found[1]


def test_asking_again_is_no_part_of_a_run(entries: dict[str, ExperimentEntry]) -> None:
    (plain,), (again,) = cells(entries), cells(entries, "again=yes")
    assert (plain.settings.again, again.settings.again) == (False, True)
    assert (again.id, again.config, again.overrides) == (plain.id, plain.config, plain.overrides)
    (reader,) = plan(["experiment=house_reader", "scale=tiny", "again=true"], entries)[1]
    assert reader.settings.again and not reader.inputs[0].settings.again
    with pytest.raises(ConfigError, match="again=perhaps must be true or false"):
        cells(entries, "again=perhaps")


def test_upstream_runs_are_part_of_the_identity(entries: dict[str, ExperimentEntry]) -> None:
    def reader(*overrides: str) -> PlannedRun:
        (cell,) = plan(["experiment=house_reader", "scale=tiny", *overrides], entries)[1]
        return cell

    cell = reader()
    (walk,) = cells(entries, "scale=tiny")
    assert [upstream.id for upstream in cell.inputs] == [walk.id]
    assert reader("seed=1").inputs[0].id == cells(entries, "scale=tiny", "seed=1")[0].id
    assert cell.id == reader().id != reader("seed=1").id


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("n_stepz=3", r"n_stepz=3 names no field \(did you mean 'n_steps'\?\)"),
        ("+step.mass=3", r"\+step.mass=3 names no field"),
        ("n_steps=many", "^n_steps=many must be an integer$"),
        ("n_steps=1e3", "^n_steps=1000.0 must be an integer$"),
        ("step.law=cauchy", "^step.law=cauchy must be one of normal, uniform$"),
        ("step.size=0", "^step.size=0.0 must be positive$"),
        ("step=3", "^step=3 must be a group of law, size$"),
        ("rate=fast", r"^rate=\[fast\] must be a list, each item a number$"),
        ("n_steps=???", r"^n_steps is missing, it must be an integer: give n_steps=...$"),
        ("scale=huge", "^scale=huge must be one of tiny, quick, evening, paper$"),
        ("seed=-1", "^seed=-1 must be between 0 and"),
        ("experiment=house_wolk", r"is not an experiment \(did you mean 'house_walk'\?\)"),
        ("experiment=house_walk,house_reader", "is a sweep: add -m"),
        ("hydra/launcher=lokal", "Could not find 'hydra/launcher/lokal'.*local"),
    ],
)
def test_one_line_says_what_is_wrong(
    entries: dict[str, ExperimentEntry], override: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        plan([override] if override.startswith("experiment=") else [WALK, override], entries)
    assert "\n" not in str(caught.value)


def test_an_experiment_must_be_named(entries: dict[str, ExperimentEntry]) -> None:
    with pytest.raises(ConfigError, match=r"experiment is missing: give experiment=..., one of"):
        plan(["seed=1"], entries)


def test_further_configuration_is_found_and_checked(
    entries: dict[str, ExperimentEntry], tmp_path: Path
) -> None:
    (tmp_path / "experiment").mkdir()
    file = tmp_path / "experiment" / "house_walk.yaml"
    file.write_text("# @package _global_\nn_steps: 5\nn_stepz: 6\n")
    # Every entry of the test's own folder: with two folders that hold the same file, the one whose
    # path sorts first would be read.
    entries = {
        name: entry._replace(conf=tmp_path) if name.startswith("house_") else entry
        for name, entry in entries.items()
    }
    with pytest.raises(ConfigError, match=r"n_stepz=6 is not a field \(did you mean 'n_steps'"):
        plan([WALK], entries)
    file.write_text("# @package _global_\nn_steps: few\n")
    with pytest.raises(ConfigError, match="n_steps in the YAML file must be an integer"):
        plan([WALK], entries)
    file.write_text("# @package _global_\nn_steps: 5\n")
    assert plan([WALK], entries)[1][0].spec.n_steps == 5
    with pytest.raises(ConfigError, match="config folder 'nowhere' does not exist"):
        plan([WALK], entries, config_dir=str(tmp_path / "nowhere"))


def test_folders_of_configuration_are_named_in_one_place(
    entries: dict[str, ExperimentEntry], tmp_path: Path
) -> None:
    searched = f"hydra.searchpath=['file://{entries['house_walk'].conf}']"
    assert plan([WALK, searched], entries)[1][0].spec.n_steps == 20
    with pytest.raises(ConfigError, match=r"hydra\.searchpath=.* beside --config-dir"):
        plan([WALK, searched], entries, config_dir=str(tmp_path))


def test_a_field_may_begin_as_hydra_does(
    entries: dict[str, ExperimentEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = entries["house_walk"].load()

    @dataclass(frozen=True)
    class Wet(module.Spec):
        hydrated: int = 1

    monkeypatch.setattr(module, "Spec", Wet)
    (cell,) = cells(entries, "hydrated=2", "hydra.verbose=false", "n_steps=3")
    assert cell.spec.hydrated == 2 and cell.overrides == (WALK, "hydrated=2", "n_steps=3")


def test_other_weights_make_another_run(
    entries: dict[str, ExperimentEntry], tmp_path: Path
) -> None:
    """A folder that is not there is refused; what its files hold is part of the run."""

    def cell() -> PlannedRun:
        source = f"source={tmp_path / 'weights'}"
        return plan(["experiment=published_weights", "scale=tiny", source], entries)[1][0]

    with pytest.raises(ConfigError, match=r"weights' is neither a folder nor in the Hugging Face"):
        cell()
    weights = tmp_path / "weights" / "model.safetensors"
    weights.parent.mkdir()
    weights.write_bytes(b"weights")
    before = cell()
    assert cell().id == before.id
    weights.write_bytes(b"others")
    assert cell().id != before.id


def test_a_reader_says_which_text_the_run_that_it_reads_is_on(
    entries: dict[str, ExperimentEntry],
) -> None:
    def read(*overrides: str) -> tuple[PlannedRun, PlannedRun]:
        (cell,) = plan(["experiment=text_circuits", "scale=tiny", *overrides], entries)[1]
        return cell, cell.inputs[0]

    plain, models = read()
    (alone,) = plan(["experiment=text_models", "scale=tiny", "seed=1"], entries)[1]
    assert models.id == alone.id and not any("task" in text for text in models.overrides)
    other, english = read("task.language=english", "task.d_vocab=300")
    task = english.spec.task
    assert (task.language.name, task.d_vocab, english.spec.model.d_vocab) == ("english", 300, 300)
    assert len({plain.id, other.id, models.id, english.id}) == 4
    with pytest.raises(ConfigError, match="d_vocab=3 must be at least 257"):
        read("task.language=english", "task.d_vocab=3")
