"""The claims of a run on the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from circuitax.commands import accept, claims


def test_claims_are_printed_with_reason_and_null(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert claims.main(["house_walk"]) == 2
    assert "RUN=house_walk must be the folder of a finished run" in capsys.readouterr().err
    assert walk() == 0
    assert accept.main(["dirty=yes"]) == 0
    assert walk("members=2") == 0
    capsys.readouterr()
    assert claims.main(["house_walk/accepted"]) == 0
    accepted = capsys.readouterr().out
    assert "✔ walk-spreads" in accepted and "∅" not in accepted
    assert claims.main(["house_walk"]) == 0, "the newest"
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "∅ walk-spreads: absent: too few members", "what does not hold comes first"
    assert rest[0] == "    It spreads. (S0)"
    assert "    reason: too few members." in rest
    assert "✔ walk-starts: 0, wanted 0 ± 0: holds, n = 1" in rest
    assert rest[-1].endswith(": 1 hold, 1 absent")


def test_one_verdict_alone(
    walk: Callable[..., int], results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk("members=2") == 0
    capsys.readouterr()
    assert claims.main(["house_walk", "verdict=absent"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("∅ walk-spreads") and "walk-starts" not in " ".join(rest)
    assert claims.main(["house_walk", "verdict=fail"]) == 2
    assert "verdict=fail must be one of holds, fails" in capsys.readouterr().err
