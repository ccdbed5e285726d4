"""Words and options are read in three spellings, and a mistake is one line."""

import pytest

from circuitax.commands.cli import YES_NO, Command, Option

COMMAND = Command(
    "bake",
    "Bakes CAKE.\n",
    ("CAKE",),
    (
        Option("minutes", "N", "how long", 30, kind=int),
        Option("top-heat", "H", "how hot", 1.0, kind=float),
        Option("shape", "", "of the cake", "round", ("round", "square")),
        Option("again", "", "whether it is baked twice", "no", YES_NO),
    ),
)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("a", {"CAKE": "a", "minutes": 30, "top_heat": 1.0, "shape": "round", "again": "no"}),
        ("a minutes=5 shape=square", {"minutes": 5, "shape": "square"}),
        ("--minutes 5 a --top-heat=2 --again", {"CAKE": "a", "minutes": 5, "again": "yes"}),
        ("again=yes a=b", {"CAKE": "a=b", "again": "yes"}),
        ("--minutes=1 -- --a", {"CAKE": "--a", "minutes": 1}),
    ],
)
def test_spellings(typed: str, found: dict[str, object]) -> None:
    read = COMMAND.read(typed.split())
    assert {name: read[name] for name in found} == found


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--minutes 5", "required: CAKE"),
        ("a b", "b is no option"),
        ("a minuts=5", "did you mean 'minutes'?"),
        ("a --minuts=5", "did you mean 'minutes'?"),
        ("a minutes=x", "minutes=x must be an integer"),
        ("a shape=oval", "shape=oval must be one of round, square"),
        ("a --minutes", "expected one argument"),
    ],
)
def test_mistakes(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    def act(options: dict[str, object]) -> int:
        raise AssertionError(options)

    assert COMMAND.entry(act)(typed.split()) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err


def test_help_and_the_disk(capsys: pytest.CaptureFixture[str]) -> None:
    def full(options: dict[str, object]) -> int:
        raise OSError(28, "No space left on device", "/there/file")

    def wrong(options: dict[str, object]) -> int:
        raise OSError("a fault of the program")

    assert COMMAND.entry(full)(["--help"]) == 0
    assert "--top-heat H" in capsys.readouterr().out
    assert COMMAND.entry(full)([]) == 2
    capsys.readouterr()
    assert COMMAND.entry(full)(["a"]) == 2
    assert "'/there/file' cannot be written (No space left" in capsys.readouterr().err
    with pytest.raises(OSError, match="a fault of the program"):
        COMMAND.entry(wrong)(["a"])
