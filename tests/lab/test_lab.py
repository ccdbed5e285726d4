"""What an experiment is given: stages, tracks, arrays, inputs."""

import io
import json
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from circuitax.lab.arrays import save_stage, write_arrays
from circuitax.lab.lab import Lab
from circuitax.lab.loop import StopFlag, Stopped
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


class Pair(NamedTuple):
    mean: object
    rest: object


NEST = {
    "z": np.array([1 + 2j, 3 - 1j], np.complex64),
    "pair": Pair(jnp.arange(6.0).reshape(2, 3), (None, [np.array([True, False]), 7])),
    "deep": {3: {"text": np.array(["a", "bcd"])}, 1: np.zeros((0, 2))},
    "wide": np.array(1e-300 + 2j),
}


def test_a_stage_of_any_nest_comes_back(tmp_path: Path) -> None:
    first = Lab(tmp_path).stage("nest", lambda: NEST)
    second = Lab(tmp_path).stage("nest", lambda: pytest.fail("computed twice"))
    assert jax.tree.structure(first) == jax.tree.structure(second) == jax.tree.structure(NEST)
    assert isinstance(second["pair"], Pair) and second["pair"].rest[0] is None
    assert isinstance(second["pair"].rest[1], list)
    for ours, before, given in zip(*map(jax.tree.leaves, (second, first, NEST)), strict=True):
        assert (type(ours), ours.dtype, ours.shape) == (np.ndarray, before.dtype, before.shape)
        np.testing.assert_array_equal(ours, given)


def test_a_damaged_stage_is_computed_again_and_said(tmp_path: Path) -> None:
    """Every byte matters: flipped anywhere, or cut anywhere, the file is found out."""
    whole = Lab(tmp_path).stage("s", lambda: {"x": np.arange(4.0), "n": (1, 2)})
    path = tmp_path / "stages" / "s.safetensors"
    good = path.read_bytes()
    bad = [good[:-1], good[: len(good) // 2], b""]
    for at in range(0, len(good), 7):
        flipped = bytearray(good)
        flipped[at] ^= 4
        bad.append(bytes(flipped))
    for data in bad:
        path.write_bytes(data)
        stream, calls = io.StringIO(), []

        def fn(calls: list[int] = calls) -> dict:
            calls.append(1)
            return {"x": np.arange(4.0), "n": (1, 2)}

        again = Lab(tmp_path, stream=stream).stage("s", fn)
        assert calls == [1], data
        assert stream.getvalue().startswith("stage s is computed again: ")
        assert len(stream.getvalue().splitlines()) == 1
        np.testing.assert_array_equal(again["x"], whole["x"])
        assert path.read_bytes() == good


def test_a_crafted_stage_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "stages" / "s.safetensors"
    for module, name in (("os", "system"), ("antigravity", "x"), ("builtins", "print")):
        nest = json.dumps([[module, name], [["dict", [["a", "value"]]]]])
        write_arrays(path, {"value": np.ones(1)}, {"nest": nest, "types": "{}"})
        stream = io.StringIO()
        assert Lab(tmp_path, stream=stream).stage("s", lambda: np.zeros(2)).shape == (2,)
        assert f"its NamedTuple {module}.{name} is not known" in stream.getvalue()
        assert "antigravity" not in sys.modules


def test_stages_refuse_what_they_cannot_keep(tmp_path: Path) -> None:
    class Local(NamedTuple):
        a: object

    for name, value, message in (
        ("object", {"a": np.array([{}])}, "'a' is ndarray with type object"),
        ("local", Local(np.ones(1)), "must be a NamedTuple defined at the top"),
        ("key", {1.5: np.ones(1)}, "must be text or an integer"),
    ):
        with pytest.raises(ValueError, match=message):
            save_stage(tmp_path / f"{name}.safetensors", value)
    assert not list(tmp_path.iterdir())


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
    like = {"W": np.zeros((2, 2))}
    np.testing.assert_array_equal(lab.load_arrays("w", source="up", like=like)["W"], np.eye(2))
    with pytest.raises(ValueError, match=r"input 'other' must be named in requires=\['up'\]"):
        lab.input("other")
    with pytest.raises(ValueError, match="arrays 'w' were not saved"):
        lab.load_arrays("w")


def test_log_reaches_the_person(tmp_path: Path) -> None:
    stream = io.StringIO()
    Lab(tmp_path, stream=stream).log("half way")
    assert stream.getvalue() == "half way\n"
