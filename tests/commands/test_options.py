"""Options of the entries without an experiment's configuration."""

import errno
from types import ModuleType

import pytest

from circuitax.commands import accept, collect, poster, render, reproduce, run
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


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (run, ["experiment=house_walk"]),
        (reproduce, ["only=house_walk"]),
        (collect, ["experiment=house_walk"]),
        (render, ["house_walk"]),
        (accept, ["only=house_walk"]),
        (poster, []),
    ],
)
def test_a_full_disk_is_one_line_of_every_command(
    results: object,
    command: ModuleType,
    typed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/a/page.md")

    monkeypatch.setattr(command, "discover", full)
    assert command.main(typed) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: '/a/page.md' cannot be written (No space left on device)")
    assert "CIRCUITAX_RESULTS=FOLDER" in line

    def broken() -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", "experiment.py")

    monkeypatch.setattr(command, "discover", broken)
    with pytest.raises(FileNotFoundError):  # an error of the program keeps its traceback
        command.main(typed)
