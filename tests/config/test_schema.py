"""A frozen dataclass as Hydra's schema."""

from dataclasses import dataclass
from enum import Enum

import pytest
from omegaconf import OmegaConf

from circuitax.config.schema import fields, register, type_name
from circuitax.names import nearest


class Act(Enum):
    relu = 1
    linear = 2


@dataclass(frozen=True)
class Inner:
    width: int = 2
    act: Act = Act.relu


@dataclass(frozen=True)
class Outer:
    model: Inner
    rates: tuple[float, ...] = (0.1,)
    note: str | None = None


def test_fields_by_path() -> None:
    assert dict(fields(Outer)) == {
        "model": Inner,
        "model.width": int,
        "model.act": Act,
        "rates": tuple[float, ...],
        "note": str | None,
    }


def test_type_names() -> None:
    names = {path: type_name(hint) for path, hint in fields(Outer)}
    assert names == {
        "model": "a group of width, act",
        "model.width": "an integer",
        "model.act": "one of relu, linear",
        "rates": "a list, each item a number",
        "note": "text or null",
    }
    assert type_name(bool) == "true or false"
    assert type_name(dict[str, int]) == "dict[str, int]"


def test_nearest_name() -> None:
    allowed = ["model.width", "model.act", "rates"]
    assert nearest("model.widht", allowed) == " (did you mean 'model.width'?)"
    assert nearest("task.act", allowed) == " (did you mean 'model.act'?)"
    assert nearest("zzz", allowed) == ""


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="of experiment 'x' must be a dataclass"):
        register("x", int)

    @dataclass(frozen=True)
    class Clash:
        seed: int = 3

    with pytest.raises(ValueError, match="field 'seed' of experiment 'x' is a key of every run"):
        register("x", Clash)


def test_registered_node_is_typed_and_writable() -> None:
    from hydra.core.config_store import ConfigStore

    register("schema_test", Outer)
    node = ConfigStore.instance().load("spec/schema_test.yaml").node
    OmegaConf.update(node, "model.width", "7")
    OmegaConf.update(node, "rates", [1, 2])
    assert (node.model.width, node.rates[0]) == (7, 1.0)
    with pytest.raises(Exception, match="could not be converted to Integer"):
        OmegaConf.update(node, "model.width", "many")
