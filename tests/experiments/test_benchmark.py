"""The harness on a made-up case, and its page of the tracked rows."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.benchmarks import harness
from experiments.benchmarks.harness import Case, measure
from experiments.benchmarks.machine import Speeds
from experiments.benchmarks.page import page

RESULTS = Path(__file__).parents[2] / "results"
OURS, THEIRS = [9.0, 2.0, 4.0, 5.0], [9.0, 6.0, 4.0, 20.0]  # the first of each is not counted
SPEEDS = Speeds(100.0, 1000.0, 10.0)


def made_up(calls: list[str], name: str = "made up") -> Case:
    """A case whose sides say when they are called, and have their figures from a list."""
    figures = {"ours": iter(OURS * 2), "theirs": iter(THEIRS * 2)}

    def side(which: str) -> float:
        calls.append(which)
        return next(figures[which])

    ours, theirs = (lambda: side("ours")), (lambda: side("theirs"))
    return Case(name, "ms", ours, theirs, "a peer", 2.0, moved=1.0, draws=0.02, seconds=1e-3)


def test_sides_take_turns_and_the_ratio_is_the_median_of_the_rounds() -> None:
    calls: list[str] = []
    speeds = iter([SPEEDS, SPEEDS._replace(matmul=80.0), SPEEDS])
    row = measure(made_up(calls), 3, lambda: next(speeds))
    assert calls == ["ours", "theirs"] * 4
    assert (row["ours"], row["theirs"]) == (4.0, 6.0)
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (3.0, 1.0, 4.0)
    assert (row["rounds"], row["noisy_rounds"], row["samples_ours"]) == (3, 1, OURS[1:])
    # 1 byte takes 1 ms and 0.02 draws take 2 ms, of rounds of 2, 4 and 5 ms.
    assert row["limit"] == "random numbers"
    assert row["shares_of_limits"] == pytest.approx(
        {"memory bandwidth": 0.25, "random numbers": 0.5}
    )


def test_a_row_is_kept_when_another_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    names = {"apples": ["red", "green"], "pears": ["ripe"]}

    def module(name: str) -> SimpleNamespace:
        return SimpleNamespace(cases=lambda _: [made_up([], each) for each in names[name]])

    monkeypatch.setattr(harness, "discover", lambda: {name: module(name) for name in names})
    monkeypatch.setattr(harness, "machine_speeds", lambda: lambda: SPEEDS)
    harness.main([f"--out={tmp_path}", "--rounds=3"])
    first = harness.tables(tmp_path)[0]["rows"]
    names["apples"] = ["yellow", "red"]
    harness.main([f"--out={tmp_path}", "--rounds=1", "--only=apples"])
    assert [row["name"] for row in first] == ["red", "green", "ripe"]
    second = harness.tables(tmp_path)[0]["rows"]
    assert [(row["name"][0], row["rounds"]) for row in second] == [("r", 1), ("y", 1), ("r", 3)]
    assert (tmp_path / "benchmarks.md").read_text() in capsys.readouterr().out
    with pytest.raises(SystemExit):
        harness.main(["--only=plums"])
    assert "--only=plums must be one of apples, pears" in capsys.readouterr().err


def test_the_page_is_that_of_the_tracked_tables() -> None:
    assert page(harness.tables(RESULTS)) == (RESULTS / "benchmarks.md").read_text(encoding="utf-8")
