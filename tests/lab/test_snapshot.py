"""Digests of small runs: every bit of every variable counts, and rounding is told apart."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from safetensors.numpy import save_file

from circuitax.lab.snapshot import DIFFERENT, ROUNDED, SAME, compare, digest
from circuitax.records.record import Record


def run(folder: Path, **changes: object) -> Path:
    values = np.linspace(0.5, 2.0, 40, dtype=np.float32).reshape(4, 10)
    parts = {"loss": values, "best": np.arange(4), "words": np.array(["a", "bc"]), "note": 3}
    parts |= changes
    data = xr.Dataset(
        {
            "loss": (("seed", "step"), parts["loss"]),
            "best": ("seed", parts["best"]),
            "words": ("word", parts["words"]),
        },
        coords={"step": np.arange(10)},
    )
    Record(data, {"note": parts["note"]}).save(folder)
    (folder / "arrays").mkdir()
    save_file({"W": parts.get("W", np.eye(3))}, folder / "arrays" / "end.safetensors")
    return folder


def test_equal_runs_have_equal_digests_in_json(tmp_path: Path) -> None:
    first, second = digest(run(tmp_path / "a")), digest(run(tmp_path / "b"))
    names = {"loss", "best", "words", "step", "notes/note", "arrays/end/W"}
    assert set(first) == names and json.loads(json.dumps(first)) == second
    assert compare(first, second, same_machine=True, dtype="float32") == (SAME, (), 0.0)


def changed(**parts: object) -> dict[str, object]:
    return parts


LOSS = np.linspace(0.5, 2.0, 40, dtype=np.float32).reshape(4, 10)
ONE = LOSS.copy()
ONE[1, 3] = np.nextafter(ONE[1, 3], 3)  # an element that is none of those kept as values


@pytest.mark.parametrize(
    "change, name",
    [
        (changed(loss=ONE), "loss"),
        (changed(loss=LOSS.astype(np.float64)), "loss"),
        (changed(best=np.array([0, 1, 3, 2])), "best"),
        (changed(words=np.array(["a", "bd"])), "words"),
        (changed(note=4), "notes/note"),
        (changed(W=np.eye(3) * [1, 1, 1 + 1e-15]), "arrays/end/W"),
    ],
)
def test_each_bit_of_each_variable_counts(
    change: dict[str, object], name: str, tmp_path: Path
) -> None:
    plain, other = digest(run(tmp_path / "a")), digest(run(tmp_path / "b", **change))
    found = compare(other, plain, same_machine=True, dtype="float32")
    assert found.outcome == DIFFERENT and found.variables == (name,)
    assert compare(digest(tmp_path / "b", [name]), digest(tmp_path / "a", [name]),
                   same_machine=True, dtype="float32").outcome == SAME  # fmt: skip


def test_rounding_is_told_apart_on_another_machine(tmp_path: Path) -> None:
    plain = digest(run(tmp_path / "a"))
    for name, factor in (("b", 1 + 3e-6), ("c", 1.01)):
        # An index that follows rounded numbers may change with them.
        digests = digest(run(tmp_path / name, loss=LOSS * np.float32(factor), best=np.ones(4)))
        found = compare(digests, plain, same_machine=False, dtype="float32")
        if name == "b":
            assert found.outcome == ROUNDED or found.variables == ("best",)
        else:
            assert found.outcome == DIFFERENT and "loss" in found.variables
            assert found.largest >= 0.009
    rounded = digest(run(tmp_path / "d", loss=LOSS * np.float32(1 + 3e-6)))
    found = compare(rounded, plain, same_machine=False, dtype="float32")
    assert found.outcome == ROUNDED and 2e-6 < found.largest < 4e-6
    # In a run of double precision a variable may be of single precision; old twins keep no types.
    old = {name: mark[:2] for name, mark in plain.items()}
    double = {name: [*mark[:2], "float64"] for name, mark in rounded.items()}
    for here, outcome in ((rounded, ROUNDED), (double, DIFFERENT)):
        assert compare(here, old, same_machine=False, dtype="float64").outcome == outcome
    assert compare(rounded, plain, same_machine=True, dtype="float32").outcome == DIFFERENT


def test_rounding_may_spare_the_values_that_are_kept_but_an_index_alone_is_no_rounding(
    tmp_path: Path,
) -> None:
    plain = digest(run(tmp_path / "a"))
    one = digest(run(tmp_path / "b", loss=ONE))
    assert one["loss"][1] == plain["loss"][1] and one["loss"][0] != plain["loss"][0]
    assert compare(one, plain, same_machine=False, dtype="float32").outcome == ROUNDED
    index = digest(run(tmp_path / "c", best=np.array([0, 2, 1, 3])))
    assert compare(index, plain, same_machine=False, dtype="float32").outcome == DIFFERENT


def test_a_variable_that_is_new_moves_no_number(tmp_path: Path) -> None:
    plain = digest(run(tmp_path / "a"))
    fewer = {name: mark for name, mark in plain.items() if name != "loss"}
    assert compare(plain, fewer, same_machine=True, dtype="float32").outcome == SAME
    found = compare(fewer, plain, same_machine=True, dtype="float32")
    assert found.outcome == DIFFERENT and found.variables == ("loss",)


def test_a_variable_less_and_a_nan_are_no_rounding(tmp_path: Path) -> None:
    plain = digest(run(tmp_path / "a"))
    fewer = {name: mark for name, mark in plain.items() if name != "loss"}
    nan = LOSS.copy()
    nan[0, 0] = np.nan
    for other in (fewer, digest(run(tmp_path / "b", loss=nan))):
        found = compare(other, plain, same_machine=False, dtype="float32")
        assert found.outcome == DIFFERENT and found.largest == float("inf")
