"""Sweeps are ordered by number, and none takes the place of another."""

import json
import os
from pathlib import Path

import pytest

from circuitax.lab.sweeps import note_sweep, sweeps_of


def jobs(*runs: str) -> list[dict]:
    return [{"run": run, "overrides": [f"seed={i}"]} for i, run in enumerate(runs)]


def test_the_latest_is_the_last_that_began(results: Path) -> None:
    earlier = results / "walk" / "sweeps" / "2099-01-01_00-00-00_7.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text(json.dumps({"jobs": jobs("a")}))  # of an earlier version
    for name in ("2031-05-05_00-00-00_1", "2007-01-01_00-00-00_1"):  # the clock went back
        assert note_sweep("walk", name, jobs(name)) == name
    os.utime(earlier)
    assert list(sweeps_of("walk")) == [
        earlier.stem,
        "2031-05-05_00-00-00_1",
        "2007-01-01_00-00-00_1",
    ]
    assert note_sweep("walk", earlier.stem, jobs("a")) == earlier.stem, "the same command again"
    assert list(sweeps_of("walk"))[-1] == earlier.stem
    assert sweeps_of("other") == {}


def test_two_sweeps_in_folders_of_one_name_are_two(results: Path) -> None:
    assert [note_sweep("walk", "own", jobs(run)) for run in "aba"] == ["own", "own.2", "own"]
    assert {name: kept[0]["run"] for name, kept in sweeps_of("walk").items()} == {
        "own.2": "b",
        "own": "a",
    }


@pytest.mark.parametrize("text", ["[]", '{"jobs": [7]}', "{", '{"jobs": {}, "number": "x"}'])
def test_a_damaged_note_is_named_and_kept(results: Path, text: str) -> None:
    path = results / "walk" / "sweeps" / "own.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert note_sweep("walk", "own", jobs("a")) == "own.2", "it holds no sweep up"
    assert path.read_text() == text
    with pytest.raises(ValueError, match=r"sweep own of walk is damaged: delete 'own\.json'"):
        sweeps_of("walk")
