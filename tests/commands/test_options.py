"""Options of the entries without an experiment's configuration."""

import pytest

from circuitax.commands.options import one_of, read_options, wanted
from circuitax.config.catalogue import discover
from circuitax.config.schema import ConfigError


def test_options() -> None:
    assert read_options(["a=1=2"], {"a": "", "b": "x"}) == {"a": "1=2", "b": "x"}
    with pytest.raises(ConfigError, match=r"aa=1 is no option \(did you mean 'aab'\?\)"):
        read_options(["aa=1"], {"aab": ""})
    with pytest.raises(ConfigError, match="a is no option"):
        read_options(["a"], {"a": ""})
    assert one_of("a", "x", ("x", "y")) == "x"
    with pytest.raises(ConfigError, match="a=z must be one of x, y"):
        one_of("a", "z", ("x", "y"))


def test_wanted(results: object) -> None:
    entries = discover()
    assert wanted("", entries) == sorted(entries)
    assert wanted("house_walk,house_reader", entries) == ["house_walk", "house_reader"]
    with pytest.raises(ConfigError, match=r"house_wolk is not an experiment \(did you mean"):
        wanted("house_wolk", entries)
