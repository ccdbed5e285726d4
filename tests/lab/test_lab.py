"""What an experiment is given: stages, tracks, arrays, inputs."""

import io
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.lab.lab import Lab
from circuitax.lab.stop import StopFlag, Stopped
from circuitax.records.record import Record


def test_a_stage_is_computed_once(tmp_path: Path) -> None:
    calls = []

    def dear(x: float) -> dict:
        calls.append(x)
        return {"y": (jnp.full(2, x), jnp.arange(3))}

    first = Lab(tmp_path).stage("dear", dear, 2.0)
    second = Lab(tmp_path).stage("dear", dear, 2.0)
    assert calls == [2.0]
    assert isinstance(first["y"][0], np.ndarray)
    np.testing.assert_array_equal(first["y"][0], second["y"][0])


def test_names_are_used_once_and_are_file_names(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.stage("a", lambda: np.zeros(1))
    with pytest.raises(ValueError, match="name='a' is used twice in one run"):
        lab.stage("a", lambda: np.zeros(1))
    for name in ("a/b", "", "..", "a b"):
        with pytest.raises(ValueError, match="must be letters, digits"):
            lab.save_arrays(name, np.zeros(1))
        with pytest.raises(ValueError, match="must be letters, digits"):
            lab.save_text(name, "")


def test_text_is_kept_beside_the_arrays(tmp_path: Path) -> None:
    Lab(tmp_path).save_text("words.json", '["é"]')
    assert (tmp_path / "arrays" / "words.json").read_text(encoding="utf-8") == '["é"]'


def test_track_ends_between_items(tmp_path: Path) -> None:
    stop = StopFlag()
    lab = Lab(tmp_path, stop=stop, stream=io.StringIO())
    assert list(lab.track(range(3), "items")) == [0, 1, 2]
    seen = []
    with pytest.raises(Stopped):
        for item in lab.track(iter([1, 2, 3]), "items", total=3):
            seen.append(item)
            stop.number = 2
    assert seen == [1]
    with pytest.raises(Stopped):
        lab.stage("late", lambda: np.zeros(1))


def test_inputs_are_those_required(tmp_path: Path) -> None:
    upstream = tmp_path / "up"
    Record(xr.Dataset({"x": ((), 2.0)})).save(upstream)
    Lab(upstream).save_arrays("w", {"W": np.eye(2)})
    lab = Lab(tmp_path / "work", inputs={"up": upstream})
    assert float(lab.input("up").data["x"]) == 2.0
    np.testing.assert_array_equal(lab.load_arrays("w", source="up")["W"], np.eye(2))
    like = {"W": 0}
    np.testing.assert_array_equal(lab.load_arrays("w", source="up", like=like)["W"], np.eye(2))
    with pytest.raises(ValueError, match=r"input 'other' must be named in requires=\['up'\]"):
        lab.input("other")
    with pytest.raises(ValueError, match="arrays 'w' were not saved"):
        lab.load_arrays("w")


def test_log_reaches_the_person(tmp_path: Path) -> None:
    stream = io.StringIO()
    Lab(tmp_path, stream=stream).log("half way")
    assert stream.getvalue() == "half way\n"
