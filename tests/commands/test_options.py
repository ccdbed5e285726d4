"""Options of the entries without an experiment's configuration."""

import errno
from types import ModuleType

import pytest

from circuitax.commands import accept, collect, poster, render, reproduce, run
from circuitax.commands.options import YES_NO, Command, Option, wanted
from circuitax.config.catalogue import discover
from circuitax.config.schema import ConfigError

OPTIONS = (
    Option("only", "a,b", "experiments " * 30),
    Option("top-k", "N", "tokens", None, kind=int),
    Option("keep", "", "whether", "no", YES_NO),
    Option("scale", "S", "size", allowed=("tiny", "quick")),
)
PLAIN = Command("plain", "About.\n", options=OPTIONS)
WORDS = Command("words", "About.\n", ("MODEL", "TEXT"), OPTIONS)


@pytest.mark.parametrize(
    ("command", "typed", "changed"),
    [
        (PLAIN, [], {}),
        (PLAIN, ["only=1=2"], {"only": "1=2"}),
        (PLAIN, ["--only", "x", "top-k=3"], {"only": "x", "top_k": 3}),
        (PLAIN, ["--keep", "--scale=tiny"], {"keep": "yes", "scale": "tiny"}),
        (PLAIN, ["keep=yes", "only=", "scale="], {"keep": "yes"}),
        (WORDS, ["m", "a=b"], {"MODEL": "m", "TEXT": "a=b"}),
        (WORDS, ["m", "only=b", "only=c"], {"MODEL": "m", "TEXT": "only=b", "only": "c"}),
        (WORDS, ["--top-k", "-1", "m", "-x"], {"MODEL": "m", "TEXT": "-x", "top_k": -1}),
        (WORDS, ["m", "--keep", "--", "--only"], {"MODEL": "m", "TEXT": "--only", "keep": "yes"}),
        (WORDS, ["m", "--a long text"], {"MODEL": "m", "TEXT": "--a long text"}),
        (Command("many", "", ("RUN ...",)), ["a", "b=c"], {"RUN": ["a", "b=c"]}),
    ],
)
def test_what_is_typed_is_read(
    command: Command, typed: list[str], changed: dict[str, object]
) -> None:
    usual = {"only": "", "top_k": None, "keep": "no", "scale": ""} if command.options else {}
    assert command.read(typed) == usual | changed


@pytest.mark.parametrize(
    ("command", "typed", "message"),
    [
        (PLAIN, ["ony=1"], r"^ony=1 is no option \(did you mean 'only'\?\); options are only, top"),
        (PLAIN, ["only"], "^only is no option"),
        (PLAIN, ["--ony"], r"^--ony is no option \(did you mean '--only'\?\)"),
        (PLAIN, ["keep=perhaps"], "^keep=perhaps must be one of no, yes$"),
        (PLAIN, ["scale=huge"], "^scale=huge must be one of tiny, quick$"),
        (PLAIN, ["top-k=2.5"], "^top-k=2.5 must be an integer$"),
        (PLAIN, ["--only"], "^--only: expected one argument"),
        (WORDS, ["m"], "^TEXT is missing: give MODEL TEXT"),
        (WORDS, ["m", "t", "u"], "^'u' is one too many: give MODEL and TEXT, each quoted"),
        (WORDS, ["m", "t", "--", "only=1"], "^'only=1' is one too many"),
    ],
)
def test_mistakes_are_named(command: Command, typed: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        command.read(typed)


def test_help_shows_every_option_and_fits() -> None:
    lines = WORDS.help().split("\n")
    assert lines[0].startswith("usage: python -m experiments.words MODEL TEXT [only=a,b]")
    assert max(map(len, lines)) <= 100
    for option in OPTIONS:
        assert any(line.startswith(f"  {option.usage}") for line in lines), option.name


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
