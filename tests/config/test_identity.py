"""Equal specs have one identity, different ones have two."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

from circuitax.config.identity import canonical, outside_inputs, run_id


class Act(Enum):
    relu = 1


@dataclass(frozen=True)
class Inner:
    act: Act = Act.relu
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Spec:
    inner: Inner = Inner()
    rate: float = 0.1
    name: str | None = None
    table: Any = None


SETTING: dict[str, Any] = {
    "scale": "quick",
    "seed": 0,
    "dtype": "float32",
    "inputs": {},
    "outside": {},
}


def test_canonical_form() -> None:
    found = canonical(Spec(table={"b": (1,), "a": True}))
    inner = {"act": "relu", "sizes": [1, 2]}
    assert found == {"inner": inner, "rate": 0.1, "name": None, "table": {"b": [1], "a": True}}


def test_everything_that_moves_a_number_moves_the_identity() -> None:
    base = run_id("toy", Spec(), **SETTING)
    assert base == run_id("toy", Spec(inner=Inner(sizes=(1, 2))), **SETTING)
    others = [
        run_id("toy2", Spec(), **SETTING),
        run_id("toy", Spec(rate=0.2), **SETTING),
        run_id("toy", dataclasses.replace(Spec(), inner=Inner(sizes=(2, 1))), **SETTING),
        *(
            run_id("toy", Spec(), **{**SETTING, key: value})
            for key, value in {
                "scale": "paper",
                "seed": 1,
                "dtype": "float64",
                "inputs": {"up": "abc"},
                "outside": {"task.path": "abc"},
            }.items()
        ),
    ]
    assert len({base, *others}) == 1 + len(others)


def test_identity_is_the_same_on_every_machine() -> None:
    assert run_id("toy", Spec(), **SETTING) == "8498f18ef439"


@dataclass(frozen=True)
class Text:
    path: str = "t"

    def outside_inputs(self) -> dict[str, str]:
        return {"path": f"sum of {self.path}"}


@dataclass(frozen=True)
class Reader:
    task: Text = Text()
    inner: Inner = Inner()
    source: str = "w"

    def outside_inputs(self) -> dict[str, str]:
        return {"source": f"sum of {self.source}"}


def test_every_spec_says_what_it_reads_from_outside() -> None:
    assert outside_inputs(Spec()) == {}
    assert outside_inputs(Reader()) == {"source": "sum of w", "task.path": "sum of t"}


def test_arrays_have_no_identity() -> None:
    with pytest.raises(ValueError, match="of type ndarray must be plain"):
        canonical(Spec(table=np.zeros(2)))
